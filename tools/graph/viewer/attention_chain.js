// Composed attention among the operations of a graph. The twin of attention_chain.cpp.

const nobody = -1, several = -2;

// Looks for chains whose tensors nobody else reads or keeps.
class Finder {
  constructor(graph, keepers) {
    this.graph = graph;
    this.keepers = keepers;
    this.readers = graph.values.map(() => nobody);
    graph.nodes.forEach((node, id) => {
      for (const input of node.inputs)
        this.readers[input] = this.readers[input] === nobody ? id : several;
    });
  }

  around(softmax) {
    const { nodes } = this.graph;
    const chain = { transpose: -1, scores: -1, bias: -1, mask: -1, softmax, dropout: -1,
      product: -1, biasValue: -1 };
    let below = this.maker(softmax, 0, softmax);
    if (this.is(below, "masked_fill", 1)) {
      chain.mask = below;
      below = this.maker(below, 0, below);
    }
    if (this.is(below, "add", 2)) {
      chain.bias = below;
      chain.biasValue = nodes[below].inputs[1];
      below = this.maker(below, 0, below);
    }
    chain.scores = below;
    let weights = softmax;
    if (this.is(this.reader(softmax), "dropout", 1))
      weights = chain.dropout = this.reader(softmax);
    chain.product = this.reader(weights);
    if (!this.is(chain.scores, "matmul", 2) || !this.is(chain.product, "matmul", 2) ||
        nodes[chain.product].inputs[0] !== nodes[weights].output)
      return null;
    chain.transpose = this.maker(chain.scores, 1, chain.scores);
    if (!this.is(chain.transpose, "transpose", 1)) return null;
    chain.q = nodes[chain.scores].inputs[0];
    chain.k = nodes[chain.transpose].inputs[0];
    chain.v = nodes[chain.product].inputs[1];
    chain.merge = this.findMerge(chain.product);
    return this.isPrivate(chain) ? chain : null;
  }

  is(node, operation, inputs) {
    return node >= 0 && this.graph.nodes[node].operation === operation &&
      this.graph.nodes[node].inputs.length >= inputs;
  }

  // What made an input of the node, if `by` alone reads it.
  maker(node, input, by) {
    if (node < 0 || this.graph.nodes[node].inputs.length <= input) return -1;
    const value = this.graph.nodes[node].inputs[input];
    const made = this.graph.values[value].producer;
    return this.readers[value] === by && made < node ? made : -1;
  }

  reader(node) {
    const next = this.readers[this.graph.nodes[node].output];
    return next > node ? next : -1;
  }

  storageOfOutput(node) { return this.graph.values[this.graph.nodes[node].output].storage; }

  // The copy behind views of the result.
  findMerge(node) {
    const result = this.storageOfOutput(node);
    while ((node = this.reader(node)) >= 0)
      if (this.storageOfOutput(node) !== result) return this.is(node, "reshape", 1) ? node : -1;
    return -1;
  }

  // No slot outside keeps the scores or the weights.
  isPrivate(chain) {
    const nodes = nodesOf(chain);
    return nodes.every((node) => node === chain.product || node === chain.transpose ||
      this.keepers.ofStorage[this.storageOfOutput(node)].every((slot) =>
        nodes.includes(this.graph.saved[slot].node)));
  }
}

/** The operations of a chain. */
export function nodesOf({ transpose, scores, bias, mask, softmax, dropout, product }) {
  return [transpose, scores, bias, mask, softmax, dropout, product].filter((node) => node >= 0);
}

/** The chains in these regions. */
export function findChains(graph, keepers, regions) {
  const finder = new Finder(graph, keepers);
  const chains = [];
  for (const { first, last } of regions)
    for (let n = first; n <= last; ++n) {
      const node = graph.nodes[n];
      const chain = node.operation === "softmax" && node.inputs.length > 0 && finder.around(n);
      if (chain) chains.push(chain);
    }
  return chains;
}

/** Whether a slot's mask is taken for a triangle, of which the fused kernel needs no tensor. */
export function isTriangle(graph, slot) {
  return graph.values[slot.value].name === "causal_mask";
}

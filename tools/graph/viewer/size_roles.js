// What sizes stand for in a graph. A batch may be as large as a head, and a letter that stood for
// both would tell an untruth at any other size, so it stands for neither.
import { elements } from "./graph.js";

/** What a size may be. */
const roles = {
  read: "a dim of what the model reads",
  weight: "a dim of a parameter",
  part: "a part into which a dim is split, as heads are",
};

// The dims into which a reshape splits one, as lists.
function splits(from, to) {
  const found = [];
  if (elements(from) === 0 || elements(from) !== elements(to)) return found;
  for (let i = 0, j = 0; i < from.length && j < to.length;) {
    const a = [from[i++]], b = [to[j++]];
    while (elements(a) !== elements(b))
      if (elements(a) < elements(b)) a.push(from[i++]);
      else b.push(to[j++]);
    const parts = b.filter((dim) => dim > 1);
    if (a.filter((dim) => dim > 1).length === 1 && parts.length > 1) found.push(parts);
  }
  return found;
}

// Tables from which rows are looked up have as many of them as there are names for: no size of what
// is computed.
const lookUps = new Set(["embedding", "narrow", "slice"]);
const layers = new Set(["linear", "layer_norm", "rms_norm"]);

class Roles {
  constructor() { this.bySize = new Map(); }

  add(role, dims) {
    for (const dim of dims) {
      if (!this.bySize.has(dim)) this.bySize.set(dim, new Map());
      const counts = this.bySize.get(dim);
      counts.set(role, Math.max(counts.get(role) ?? 0, dims.filter((one) => one === dim).length));
    }
  }

  look({ nodes, values }) {
    const readers = new Map();
    for (const node of nodes) {
      if (node.recomputed) continue;
      for (const input of node.inputs) readers.set(input,
        [...(readers.get(input) ?? []), node.operation]);
      // The indices are no input of the operation, and have the result's other dims.
      if (node.operation === "embedding") this.add("read", values[node.output].shape.slice(0, -1));
      if (node.operation === "reshape")
        for (const parts of splits(values[node.inputs[0]].shape, values[node.output].shape))
          this.add("part", parts);
    }
    for (const [id, operations] of readers) this.lookAtValue(values[id], operations);
  }

  // Of numbers that a layer reads, the features are a dim of its parameter, too.
  lookAtValue({ leaf, producer, dtype, shape }, operations) {
    if (leaf) {
      const isTable = operations.every((operation) => lookUps.has(operation));
      new Set(isTable ? shape.slice(1) : shape).forEach((dim) => this.add("weight", [dim]));
    } else if (producer < 0 && dtype === "i64") {
      this.add("read", shape);
    } else if (producer < 0 && operations.some((operation) => layers.has(operation))) {
      const features = shape.at(-1);
      this.add("read", shape.indexOf(features) < shape.length - 1 ? shape : shape.slice(0, -1));
    }
  }

  /** Why a size is more than one thing; "" where it is one at the most. */
  of(size) {
    const found = [...(this.bySize.get(size) ?? [])];
    if (found.length === 1 && found[0][1] > 1) return `twice ${roles[found[0][0]]}`;
    return found.length > 1 ? found.map(([role]) => roles[role]).join(" and ") : "";
  }
}

/**
 * Letters that no other shares its size with, and whose size is more than one thing in the graphs:
 * {name, size, why}.
 */
export function ambiguousLetters(letters, graphs) {
  const all = new Roles();
  graphs.forEach((graph) => all.look(graph));
  const isAlone = (letter) => letters.every(({ name, size }) =>
    name === letter.name || size !== letter.size);
  return letters.filter(isAlone).map((letter) => ({ ...letter, why: all.of(letter.size) }))
    .filter(({ why }) => why !== "");
}

// What-if: composed attention run by the fused kernel. The twin of whatif_fuse.cpp; whatif.h tells
// every edit.
import { findChains, isTriangle, nodesOf } from "./attention_chain.js";
import { dropNodes } from "./compaction.js";
import { formatCount, shapeText } from "./format.js";
import { Keepers, elementBytes, elements } from "./graph.js";
import { findRegions, rootName } from "./regions.js";
import { Script, part } from "./script.js";
import { copyOfLists, withHeld } from "./whatif_donation.js";

class Fusion {
  // `staying`: storages of masks, and of what makes them, that go on without the chain.
  constructor(was, chain, staying, result, script) {
    Object.assign(this, { was, chain, staying, result, script, nodes: nodesOf(chain),
      node: chain.product, statistics: [], kept: new Set(), keepsHidden: false });
    this.y = this.storageOf(chain.product);
    this.merged = chain.merge < 0 ? -1 : this.storageOf(chain.merge);
  }

  apply() {
    this.editOperation();
    this.editSlots();
    if (!this.script.hasEvents) return;
    this.editForward();
    this.editBackward();
  }

  storageOf(node) { return this.was.values[this.was.nodes[node].output].storage; }

  // ---- operation and slots ----

  // In the place of the last product.
  editOperation() {
    const { was, chain, result } = this;
    const inputs = [chain.q, chain.k, chain.v];
    if (chain.bias >= 0) inputs.push(chain.biasValue);
    const product = was.nodes[this.node];
    result.nodes[this.node] = { ...product, operation: "fused_attention", inputs,
      flops: product.flops + was.nodes[chain.scores].flops };
    if (this.merged < 0) return;
    const merge = result.nodes[chain.merge];
    result.nodes[chain.merge] = { ...merge, attributes: merge.attributes.map((attribute) =>
      attribute.name === "copied" ? { ...attribute, type: "bool", value: false } : attribute) };
  }

  editSlots() {
    const { was, chain } = this;
    this.addSlot("q", chain.q);
    this.addSlot("k", chain.k);
    this.addSlot("v", chain.v);
    this.addSlot("y", was.nodes[this.node].output);
    for (const slot of ["row_max", "row_sum"]) this.addStatistic(slot);
    if (chain.bias >= 0) this.addSlot("bias", chain.biasValue);
    for (const slot of was.saved)
      if (slot.node === chain.mask && slot.slot === "mask" && slot.packing < 0 &&
          !isTriangle(was, slot)) {
        this.addSlot("hidden", slot.value);
        this.keepsHidden = true;
      }
  }

  addSlot(slot, value) {
    this.result.saved.push({ node: this.node, slot, reason: "weights are made again",
      for_inputs: [0, 1, 2], value, packing: -1 });
    const { storage } = this.result.values[value];
    this.kept.add(storage === this.y && this.merged >= 0 ? this.merged : storage);
  }

  // A number for each row of the scores.
  addStatistic(slot) {
    const { was, chain, result, script } = this;
    const weights = was.values[was.nodes[chain.softmax].output];
    const { dtype } = weights, shape = weights.shape.slice(0, -1);
    const storage = script.addStorage(elements(shape) * elementBytes(dtype), "saved",
      "fused_attention");
    const strides = shape.map((_, i) => elements(shape.slice(i + 1)));
    this.statistics.push(storage);
    result.values.push({ name: "", dtype, shape, strides, offset: 0, storage,
      producer: this.node, leaf: false });
    this.addSlot(slot, result.values.length - 1);
  }

  // ---- births and deaths ----

  editForward() {
    const { script, result } = this;
    const step = script.forward[this.node];
    if (step < 0) return;
    for (const n of this.nodes) {
      const gone = script.forward[n];
      if (gone < 0) continue;
      for (const { storage, birth } of script.own[gone])
        if (birth && storage !== this.y && !this.staying.has(storage) &&
            !this.makesHidden(n, storage)) script.remove(storage);
      if (n !== this.node) script.removeStep(gone);
    }
    result.steps[step] = { ...result.steps[step], operation: "fused_attention" };
    for (const made of this.statistics) script.beBorn(made, step, part.start);
    if (this.merged < 0) return;
    script.remove(this.y);
    script.moveBirth(this.merged, step, part.start);
  }

  // Whether the storage was made on the way to a mask that is kept.
  makesHidden(node, storage) {
    return node === this.chain.mask && this.keepsHidden &&
      this.was.storages[storage].operation !== this.was.nodes[node].operation;
  }

  // The steps of the chain's rules become one: the last of them, so that what dies in any of them
  // dies there, and what is born and lives on is born there.
  editBackward() {
    const { was, script, result } = this;
    const steps = this.nodes.map((n) => script.backward[n]).filter((step) => step >= 0);
    if (steps.length === 0) {
      this.holdSlots(script.own.length - 1);
      return;
    }
    const one = Math.max(...steps);
    for (const step of steps) {
      for (const { storage, birth } of script.own[step]) {
        if (this.staying.has(storage)) continue;
        const death = script.death[storage];
        if (birth && death >= 0 && death <= one) script.remove(storage);
        if (!birth) script.die(storage, one, part.end);
      }
      if (step !== one) script.removeStep(step);
    }
    this.addScoreGradient(one);
    result.steps[one] = { phase: "backward", operation: "fused_attention",
      module: was.nodes[this.node].module, node: this.node };
    this.holdSlots(one);
  }

  // What the slots keep lives to the end of this step, also if nothing kept it before, as a bias.
  holdSlots(step) {
    for (const storage of this.kept) {
      const death = this.statistics.includes(storage) ? step : this.script.death[storage];
      if (death >= 0 && death <= step) this.script.die(storage, step, part.end);
    }
  }

  // A bias that wants a gradient gets it by way of that of the scores, unless it has as many
  // elements.
  addScoreGradient(step) {
    const { was, chain, script } = this;
    if (chain.bias < 0) return;
    const bias = was.values[chain.biasValue], scores = was.values[was.nodes[chain.bias].output];
    const size = elements(scores.shape);
    if ((bias.producer < 0 && !bias.leaf) || elements(bias.shape) === size) return;
    const gradient = script.addStorage(size * elementBytes(scores.dtype),
      "transient", "fused_attention");
    script.beBorn(gradient, step, part.start);
    script.die(gradient, step, part.end);
  }
}

// What the kernel's slots keep is not written over behind it.
function findHolds(graph, chains) {
  return chains.flatMap(({ q, k, v, bias, biasValue, scores, product, merge }) => {
    const last = Math.max(product, merge);
    const holds = [{ value: q, from: scores }, { value: k, from: scores },
      { value: v, from: product }, { value: graph.nodes[last].output, from: last + 1 }];
    return bias >= 0 ? [...holds, { value: biasValue, from: bias }] : holds;
  });
}

// By storage, the first node that stays and keeps or reads it.
function findUsers(graph, gone) {
  const first = new Map();
  const use = (value, node) => {
    const { storage } = graph.values[value];
    if (!gone.has(node) && !(first.get(storage) <= node)) first.set(storage, node);
  };
  for (const { packing, value, node } of graph.saved) if (packing < 0) use(value, node);
  graph.nodes.forEach(({ inputs }, node) => inputs.forEach((input) => use(input, node)));
  return first;
}

// What was made on the way to a triangle moves with its birth. The storages join `staying`.
function moveMaking(was, mask, to, script, staying) {
  const born = script.birth[mask];
  script.moveBirth(mask, to, part.start);
  for (const { storage, birth } of script.own[born]) {
    const isOnTheWay = birth && script.death[storage] === born &&
      was.storages[storage].operation !== was.steps[born].operation;
    if (!isOnTheWay || staying.has(storage)) continue;
    staying.add(storage);
    script.moveBirth(storage, to, part.start);
    script.die(storage, to, part.start);
  }
}

// Triangles that only the kernel would read are not made. Another lives for the operations that
// stay, and one that a checkpoint may read when it runs again stays as it is. Returned are the
// storages of such, and of what makes them.
function leaveOutTriangles(was, gone, script) {
  const users = findUsers(was, gone), staying = new Set();
  const isMadeAgain = was.nodes.some(({ operation, recomputed }) =>
    recomputed && operation === "masked_fill");
  for (const slot of was.saved) {
    if (!gone.has(slot.node) || slot.slot !== "mask" || !isTriangle(was, slot)) continue;
    const mask = was.values[slot.value].storage, user = users.get(mask);
    if (script.birth[mask] < 0) continue;
    if (user === undefined && !isMadeAgain) script.remove(mask);
    if (staying.has(mask) || script.gone.has(mask)) continue;
    staying.add(mask);
    if (user === undefined) continue;
    const start = script.forward[user], end = script.backward[user];
    if (end >= 0 && end < script.death[mask]) script.die(mask, end, part.end);
    if (start > script.birth[mask]) moveMaking(was, mask, start, script, staying);
  }
  return staying;
}

// The kernel writes its result as the merged heads lie in memory: both are one storage.
function showMerged(was, chains, result) {
  const storage = (node) => was.values[was.nodes[node].output].storage;
  const merged = new Map();
  for (const chain of chains)
    if (chain.merge >= 0 && !merged.has(storage(chain.product)))
      merged.set(storage(chain.product), storage(chain.merge));
  result.values = result.values.map((value) =>
    merged.has(value.storage) ? { ...value, storage: merged.get(value.storage) } : value);
}

/**
 * The chains in the modules that the patterns match, each once and in order. Throws an Error when
 * one of them matches no module, or none with a chain.
 */
export function chainsIn(graph, patterns, keepers = new Keepers(graph)) {
  const chains = new Map();  // by softmax
  for (const pattern of patterns) {
    const found = findChains(graph, keepers, findRegions(graph, pattern));
    if (found.length === 0) throw new Error(`no composed attention in "${pattern}"`);
    for (const chain of found) chains.set(chain.softmax, chain);
  }
  return [...chains.values()].sort((a, b) => a.softmax - b.softmax);
}

// What whatif.h says of a mask that the kernel keeps, though it may need less of it. The twin of
// bound_of_mask() in whatif_matches.cpp.
function maskNote(graph, chain, told) {
  const slot = graph.saved.find((one) => {
    const { shape, storage } = graph.values[one.value];
    return one.node === chain.mask && one.slot === "mask" && one.packing < 0 &&
      shape.at(-1) > 1 && shape.at(-1) === shape.at(-2) && !isTriangle(graph, one) &&
      !told.has(storage);
  });
  if (!slot) return "";
  const { shape, storage } = graph.values[slot.value];
  told.add(storage);
  return `${graph.nodes[chain.softmax].module || rootName}: the mask ${shapeText(shape)} is taken ` +
    "to be kept; if it combines a causal triangle with another mask, only that one is, and saved " +
    `bytes and the peak are too high by at most ${formatCount(graph.storages[storage].bytes)} ` +
    "bytes.";
}

/** What there is to say of what is not exact: a list of sentences. */
export function fuseNotes(graph, patterns) {
  const told = new Set();  // storages of masks
  return chainsIn(graph, patterns).map((chain) => maskNote(graph, chain, told)).filter(Boolean);
}

/** Every composed attention in these modules as the fused kernel. Throws an Error without one. */
export function fused(asIs, patterns) {
  const chains = chainsIn(asIs, patterns);
  const graph = withHeld(asIs, findHolds(asIs, chains));
  const result = copyOfLists(graph);
  const script = new Script(result);
  const gone = new Set(chains.flatMap(nodesOf));
  result.saved = result.saved.filter((slot) => !gone.has(slot.node));
  const masks = leaveOutTriangles(graph, gone, script);
  for (const chain of chains) new Fusion(graph, chain, masks, result, script).apply();
  showMerged(graph, chains, result);
  if (script.hasEvents) script.finish();
  for (const chain of chains) gone.delete(chain.product);
  dropNodes(result, gone, script.gone);
  return result;
}

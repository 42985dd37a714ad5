// What-if: composed attention run by the fused kernel. The twin of whatif_fuse.cpp; whatif.h tells
// every edit.
import { findChains, isTriangle, nodesOf } from "./attention_chain.js";
import { Keepers, elementBytes, elements } from "./graph.js";
import { findRegions } from "./regions.js";
import { Script, part } from "./script.js";
import { copyOfLists, withHeld } from "./whatif_donation.js";

class Fusion {
  // `released`: masks that are gone when the forward pass is done.
  constructor(was, chain, released, result, script) {
    Object.assign(this, { was, chain, released, result, script, nodes: nodesOf(chain),
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
        if (birth && storage !== this.y && !this.makesHidden(n, storage)) script.remove(storage);
      if (n !== this.node) script.removeStep(gone);
    }
    result.steps[step] = { ...result.steps[step], operation: "fused_attention" };
    for (const made of this.statistics) script.beBorn(made, step, part.start);
    if (this.merged < 0) return;
    script.remove(this.y);
    script.beBornEarlier(this.merged, step, part.start);
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
        const death = script.death[storage];
        if (birth && death >= 0 && death <= one) script.remove(storage);
        if (!birth && !this.released.has(storage)) script.die(storage, one, part.end);
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

// Masks that were made before, and that no slot keeps any more, go after their last reader.
function releaseMasks(was, keepers, gone, script) {
  const released = new Set();
  for (const slot of was.saved) {
    if (!gone.has(slot.node) || slot.slot !== "mask" || !isTriangle(was, slot)) continue;
    const mask = was.values[slot.value].storage;
    const death = script.death[mask], read = script.forward[slot.node];
    const isFree = keepers.ofStorage[mask].every((keeper) => gone.has(was.saved[keeper].node));
    if (!isFree || read < 0 || death < 0 || was.steps[death].phase !== "backward") continue;
    script.die(mask, read, part.end);
    released.add(mask);
  }
  return released;
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

// Removes the nodes, the storages and the values on these, and numbers the rest anew.
function dropNodes(graph, nodes, storages) {
  const newPlaces = (rows, goes) => {
    let next = 0;
    return rows.map((row, i) => (goes(row, i) ? -1 : next++));
  };
  const node = newPlaces(graph.nodes, (_, i) => nodes.has(i));
  const value = newPlaces(graph.values, (row) => storages.has(row.storage));
  const storage = newPlaces(graph.storages, (_, i) => storages.has(i));
  const stays = (places) => (_, i) => places[i] >= 0;
  const moved = (id, places) => (id < 0 ? id : places[id]);
  graph.nodes = graph.nodes.filter(stays(node)).map((row) => ({ ...row,
    inputs: row.inputs.map((id) => value[id]), output: value[row.output] }));
  graph.values = graph.values.filter(stays(value)).map((row) => ({ ...row,
    storage: storage[row.storage], producer: moved(row.producer, node) }));
  graph.storages = graph.storages.filter(stays(storage));
  graph.saved = graph.saved.map((row) => ({ ...row, node: node[row.node],
    value: value[row.value] }));
  graph.steps = graph.steps.map((row) => ({ ...row, node: moved(row.node, node) }));
  graph.events = graph.events.map((row) => ({ ...row, storage: storage[row.storage] }));
}

/** The chains in the modules that the pattern matches; none when no module does. */
export function chainsIn(graph, pattern, keepers = new Keepers(graph)) {
  return findChains(graph, keepers, findRegions(graph, pattern));
}

/** Every composed attention in these modules as the fused kernel. Throws an Error without one. */
export function fused(asIs, pattern) {
  const chains = chainsIn(asIs, pattern);
  if (chains.length === 0) throw new Error(`no composed attention in "${pattern}"`);
  const graph = withHeld(asIs, findHolds(asIs, chains));
  const keepers = new Keepers(graph);
  const result = copyOfLists(graph);
  const script = new Script(result);
  const gone = new Set(chains.flatMap(nodesOf));
  result.saved = result.saved.filter((slot) => !gone.has(slot.node));
  const masks = releaseMasks(graph, keepers, gone, script);
  for (const chain of chains) new Fusion(graph, chain, masks, result, script).apply();
  showMerged(graph, chains, result);
  if (script.hasEvents) script.finish();
  for (const chain of chains) gone.delete(chain.product);
  dropNodes(result, gone, script.gone);
  return result;
}

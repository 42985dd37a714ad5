// The gradients that cross the border of a checkpoint. The twin of checkpoint_gradients.cpp.
import { Keepers, elementBytes, elements } from "./graph.js";
import { isSameList } from "./lists.js";
import { isWithin } from "./module_tree.js";
import { rearrangements } from "./operations.js";
import { part } from "./script.js";

const passing = new Set(rearrangements);

// Bytes of a row-major tensor of the value's shape: what its gradient takes.
const gradientBytes = (value) => elements(value.shape) * elementBytes(value.dtype);

// Whether the gradient of the node's output is, as it is, the gradient of this input.
function passesGradientOn(was, node, input) {
  const same = isSameList(was.values[node.inputs[input]].shape, was.values[node.output].shape);
  if (node.operation === "add" || node.operation === "expand") return same;
  if (node.operation === "sub") return input === 0 && same;
  return passing.has(node.operation);
}

// Follows g, the gradient of the result, from rule to rule.
class GradientWalk {
  constructor(region, script) {
    Object.assign(this, { region, was: region.was, script,
      bytes: gradientBytes(region.was.values[region.result]),
      holders: new Set([region.result]),  // values whose gradient, as far as summed, is g's buffer
      begun: new Set(),                   // values whose gradient has a part
      held: false, sum: -1 });
  }

  // The storage of a sum that went to g before, or -1.
  run() {
    const { region, script } = this;
    this.held = this.isSharedOutside();
    for (let n = region.last; n >= region.first; --n)
      if (script.backward[n] >= 0) this.passRule(n, script.backward[n]);
    if (this.holders.size === 0 || this.held) return this.sum;
    // g has become the gradient of what enters: the checkpoint hands out a copy.
    const copy = script.addStorage(this.bytes, "transient", "gradient");
    script.beBorn(copy, region.b1, part.after);
    script.die(copy, region.b1, part.after);
    return this.sum;
  }

  // Whether g is also, and stays, the gradient of a value from before the region, as with a
  // residual: then it is written to by no rule of the region, and outlives it.
  isSharedOutside() {
    const { was, region } = this;
    const reader = was.readers.lastOfValue[region.result];
    if (reader <= region.last || was.readers.countOfValue[region.result] !== 1) return false;
    const node = was.nodes[reader];
    let passed = false, shared = false;
    node.inputs.forEach((input, k) => {
      if (!passesGradientOn(was, node, k)) return;
      const value = was.values[input];
      if (input === region.result) passed = true;
      else if (value.leaf || (value.producer >= 0 && value.producer < region.first))
        shared = shared || was.readers.lastOfValue[input] === reader;
    });
    return passed && shared;
  }

  passRule(n, step) {
    const { was } = this;
    const node = was.nodes[n];
    const readsG = this.holders.delete(node.output);
    node.inputs.forEach((input, k) => {
      const value = was.values[input];
      if (value.producer < 0 && !value.leaf) return;
      const isFirst = !this.begun.has(input);
      this.begun.add(input);
      if (isFirst) this.beginGradient(input, step);
      this.addGradient(input, step, isFirst, readsG && passesGradientOn(was, node, k));
    });
    if (readsG && this.holders.size === 0 && !this.held) {
      this.held = true;
      this.keepAlive(step);
    }
  }

  addGradient(input, step, isFirst, isG) {
    if (this.holders.has(input)) {
      // A sum written into g, unless others see it: then into what is added.
      if (this.holders.size === 1 && !isG && !this.held) {
        this.held = true;
        this.sum = this.holdBuffer(step, this.bytes);
      }
      this.holders.delete(input);
    } else if (isFirst && isG) {
      this.holders.add(input);
    }
  }

  // The first part of an input's gradient has a buffer of its own, though there is a sum to add it
  // to outside.
  beginGradient(input, step) {
    const { was, region, script } = this;
    const reader = was.readers.lastOfValue[input];
    if (region.contains(was.values[input].producer) || reader <= region.last) return;
    if (script.backward[reader] >= 0) this.holdBuffer(step, gradientBytes(was.values[input]));
  }

  // One buffer more from this step to the region's end: what is born and dies in the step without
  // the checkpoint, else a new one.
  holdBuffer(step, bytes) {
    const { was, region, script } = this;
    const found = script.own[step].find(({ storage, birth }) =>
      birth && was.storages[storage].bytes === bytes && script.death[storage] === step);
    if (found) {
      script.die(found.storage, region.b1, part.after);
      return found.storage;
    }
    const buffer = script.addStorage(bytes, "transient", "checkpoint");
    script.beBorn(buffer, step, part.start);
    script.die(buffer, region.b1, part.after);
    return buffer;
  }

  // g is read for the last time: it dies here without the checkpoint, or becomes another gradient.
  keepAlive(step) {
    const { was, region, script } = this;
    const found = script.own[step].find(({ storage, birth }) =>
      !birth && was.storages[storage].bytes === this.bytes && script.birth[storage] !== step &&
      was.keepers.ofStorage[storage].length === 0);
    if (found) script.die(found.storage, region.b1, part.after);
    else this.holdBuffer(step, this.bytes);
  }
}

// What lives at the end of a region's backward steps: the birth, and the event that is the death.
class BehindRegion {
  constructor({ path, last }, graph) {
    const unknown = () => new Int32Array(graph.storages.length).fill(-1);
    Object.assign(this, { graph, birth: unknown(), death: unknown() });  // by storage: step, event
    const isBackward = ({ phase }) => phase === "backward";
    const isInside = (step) => isBackward(step) && isWithin(step.module, path);
    this.last = graph.steps.findLastIndex((step) => isBackward(step) &&
      step.operation === "checkpoint" && step.node === last);
    this.first = this.last;
    while (this.first > 0 && isInside(graph.steps[this.first - 1])) --this.first;
    graph.events.forEach(({ step, storage, birth }, i) => {
      if (birth) this.birth[storage] = step;
      else this.death[storage] = i;
    });
  }

  get isThere() { return this.last >= 0; }

  // Of the backward pass.
  isBornBefore(storage) {
    const birth = this.birth[storage];
    return birth >= 0 && birth < this.first && this.graph.steps[birth].phase === "backward";
  }

  outlives(storage) {
    const death = this.death[storage];
    return death < 0 || this.graph.events[death].step > this.last;
  }
}

// The storage in which g goes on where the sum is written to it; -1 when that is not certain.
function findG(behind, graph, sum) {
  const keepers = new Keepers(graph), found = [];
  graph.storages.forEach(({ bytes }, id) => {
    if (bytes === graph.storages[sum].bytes && behind.isBornBefore(id) && behind.outlives(id) &&
        behind.death[id] >= 0 && keepers.ofStorage[id].length === 0)
      found.push(id);
  });
  return found.length === 1 ? found[0] : -1;
}

function swapStorages(events, a, b) {
  const { storage } = events[a];
  events[a] = { ...events[a], storage: events[b].storage };
  events[b] = { ...events[b], storage };
}

/**
 * Edits the script for the gradients that cross the region's border. Returns the storage to which a
 * sum is written that went to g before; -1 when there is none.
 */
export const holdGradients = (region, script) => new GradientWalk(region, script).run();

/**
 * Edits a graph whose script is finished. `sum` is that of holdGradients(), not -1: from the
 * region's end on it is what g's buffer was, and g dies in its place.
 */
export function passOnSum(region, sum, graph) {
  const behind = new BehindRegion(region, graph);
  const g = behind.isThere ? findG(behind, graph, sum) : -1;
  if (g >= 0 && behind.death[sum] >= 0 && !behind.outlives(sum))
    swapStorages(graph.events, behind.death[sum], behind.death[g]);
}

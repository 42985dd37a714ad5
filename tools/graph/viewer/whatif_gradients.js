// The gradients that cross the border of a checkpoint. The twin of checkpoint_gradients.cpp.
import { elementBytes, elements } from "./graph.js";
import { part } from "./script.js";

const views = new Set(["reshape", "flatten", "squeeze", "unsqueeze", "transpose", "permute",
  "clone", "contiguous"]);

// Bytes of a row-major tensor of the value's shape: what its gradient takes.
const gradientBytes = (value) => elements(value.shape) * elementBytes(value.dtype);

const isSameShape = (a, b) => a.length === b.length && a.every((dim, i) => dim === b[i]);

// Whether the gradient of the node's output is, as it is, the gradient of this input.
function passesGradientOn(was, node, input) {
  const same = isSameShape(was.values[node.inputs[input]].shape, was.values[node.output].shape);
  if (node.operation === "add" || node.operation === "expand") return same;
  if (node.operation === "sub") return input === 0 && same;
  return views.has(node.operation);
}

// Follows g, the gradient of the result, from rule to rule.
class GradientWalk {
  constructor(region, script) {
    Object.assign(this, { region, was: region.was, script,
      bytes: gradientBytes(region.was.values[region.result]),
      holders: new Set([region.result]),  // values whose gradient, as far as summed, is g's buffer
      begun: new Set(),                   // values whose gradient has a part
      held: false });
  }

  run() {
    const { region, script } = this;
    this.held = this.isSharedOutside();
    for (let n = region.last; n >= region.first; --n)
      if (script.backward[n] >= 0) this.passRule(n, script.backward[n]);
    if (this.holders.size === 0 || this.held) return;
    // g has become the gradient of what enters: the checkpoint hands out a copy.
    const copy = script.addStorage(this.bytes, "transient", "gradient");
    script.beBorn(copy, region.b1, part.after);
    script.die(copy, region.b1, part.after);
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
        this.holdBuffer(step, this.bytes);
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
      return;
    }
    const buffer = script.addStorage(bytes, "transient", "checkpoint");
    script.beBorn(buffer, step, part.start);
    script.die(buffer, region.b1, part.after);
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

/** Edits the script for the gradients that cross the region's border. */
export const holdGradients = (region, script) => new GradientWalk(region, script).run();

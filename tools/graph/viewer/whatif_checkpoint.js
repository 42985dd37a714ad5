// What-if: modules run by nn::checkpoint. The twin of whatif_checkpoint.cpp; whatif.h tells every
// edit, and both are held to the same figures.
import { dropNodes } from "./compaction.js";
import { formatCount, shapeText } from "./format.js";
import { Keepers, slotsOfNodes } from "./graph.js";
import { sumOf } from "./lists.js";
import { copyOfLists, withHeld } from "./whatif_donation.js";
import { holdGradients, passOnSum } from "./whatif_gradients.js";
import { Readers, findRegions, rootName } from "./regions.js";
import { Script, part } from "./script.js";

class Region {
  constructor(was, { path, first, last }, script) {
    Object.assign(this, { was, path, first, last, result: -1, inputs: [], parameters: [],
      f0: -1, f1: -1, b0: -1, b1: -1, born: new Set(), entering: new Set(), kept: new Map() });
    this.findResult();
    this.findWhatEnters();
    this.findKept();
    if (script.hasEvents) this.findSteps(script);
    if (this.f0 >= 0) this.findBorn(script);
  }

  contains(node) { return this.first <= node && node <= this.last; }
  isInBackward(step) { return this.b0 >= 0 && this.b0 <= step && step <= this.b1; }

  findResult() {
    for (let n = this.first; n <= this.last; ++n) {
      const value = this.was.nodes[n].output;
      const isReadOutside = this.was.readers.lastOfValue[value] > this.last;
      if (!isReadOutside && (n < this.last || this.result >= 0)) continue;
      if (this.result >= 0 && this.result !== value)
        throw new Error(`${this.path} has several results; a checkpoint has one`);
      this.result = value;
    }
  }

  findWhatEnters() {
    const seen = new Set();
    for (let n = this.first; n <= this.last; ++n)
      for (const input of this.was.nodes[n].inputs) {
        const value = this.was.values[input];
        if (this.contains(value.producer) || seen.has(input)) continue;
        seen.add(input);
        (value.leaf ? this.parameters : this.inputs).push(input);
      }
  }

  // Storages that slots of the region keep, with the first node that does.
  findKept() {
    for (let n = this.first; n <= this.last; ++n)
      for (const slot of this.was.slotsOfNode[n]) {
        const storage = this.was.storage(slot.value);
        if (slot.packing < 0 && !this.kept.has(storage)) this.kept.set(storage, n);
      }
  }

  findSteps(script) {
    for (let n = this.first; n <= this.last; ++n) {
      const forward = script.forward[n], backward = script.backward[n];
      if (forward >= 0) {
        this.f0 = this.f0 < 0 ? forward : Math.min(this.f0, forward);
        this.f1 = Math.max(this.f1, forward);
      }
      if (backward >= 0) {
        this.b0 = this.b0 < 0 ? backward : Math.min(this.b0, backward);
        this.b1 = Math.max(this.b1, backward);
      }
    }
  }

  // The first step also holds what happened since the operation before it: all that comes before
  // the first birth of this operation's own.
  eventsInside(script, step) {
    const events = script.own[step];
    if (step > this.f0) return events;
    const begin = events.findIndex(({ storage, birth }) =>
      birth && this.was.storages[storage].operation === this.was.steps[step].operation);
    return begin < 0 ? [] : events.slice(begin);
  }

  // Constants that others keep, too, as a mask that layers share and that the first of them makes:
  // the function holds them, and the second run makes neither them nor what was made on the way.
  leaveOutShared(script) {
    const { was, born } = this;
    for (const storage of this.kept.keys()) {
      const slots = was.keepers.ofStorage[storage];
      const isShared = slots.some((slot) => !this.contains(was.saved[slot].node));
      const { producer, leaf } = was.values[was.saved[slots[0]].value];
      if (!isShared || producer >= 0 || leaf || !born.delete(storage)) continue;
      const step = script.birth[storage];
      for (const { storage: made, birth } of script.own[step])
        if (birth && script.death[made] === step &&
            was.storages[made].operation !== was.steps[step].operation)
          born.delete(made);
    }
  }

  findBorn(script) {
    for (let step = this.f0; step <= this.f1; ++step)
      for (const event of this.eventsInside(script, step))
        if (event.birth) this.born.add(event.storage);
    this.leaveOutShared(script);
    this.inputs = this.inputs.filter((value) =>
      this.was.values[value].producer >= 0 || !this.born.has(this.was.storage(value)));
    for (const value of [...this.inputs, ...this.parameters])
      this.entering.add(this.was.storage(value));
  }
}

// The row of a storage that no slot keeps.
const unsaved = (row) => (row.category === "saved" ? { ...row, category: "transient" } : row);

class Checkpoint {
  constructor(region, result, script) {
    Object.assign(this, { region, was: region.was, result, script, node: region.last,
      clones: new Map() });
  }

  // The storage of holdGradients(), or -1.
  apply() {
    this.addOperation();
    const { region, script } = this;
    if (!script.hasEvents) this.cloneAll();
    if (region.f0 < 0) return -1;
    script.insertAfter(region.f1, { step: this.step("forward"), events: [] });
    this.endFirstRun();
    if (region.b0 < 0) return -1;
    this.runAgain();
    const sum = holdGradients(region, script);
    script.insertAfter(region.b1, { step: this.step("backward"), events: [] });
    return sum;
  }

  // ---- operation and slots ----

  // In the place of the region's last.
  addOperation() {
    const { path, first, last, inputs, parameters, result } = this.region;
    const read = [...inputs, ...parameters], ran = this.was.nodes.slice(first, last + 1);
    this.result.nodes[this.node] = { operation: "checkpoint", module: path, inputs: read,
      output: result, attributes: [{ name: "operations", type: "int", value: ran.length }],
      flops: sumOf(ran, "flops"),
      planned: ran.some(({ planned }) => planned), recomputed: false };
    this.setProducer(result, this.node);
    read.forEach((value, i) => this.result.saved.push({ node: this.node, value, packing: -1,
      slot: i < inputs.length ? "input" : "parameter", reason: "the function runs again",
      for_inputs: read.map((_, k) => k) }));
  }

  setProducer(value, producer) {
    this.result.values[value] = { ...this.result.values[value], producer };
  }

  step(phase) {
    return { phase, operation: "checkpoint", module: this.region.path, node: this.node };
  }

  // ---- the first run: nothing is kept but what enters ----

  endFirstRun() {
    const { region, script, was, result } = this;
    for (let step = region.f0; step <= region.f1; ++step)
      if (region.contains(was.steps[step].node)) result.steps[step] = { ...result.steps[step],
        node: -1 };
    const [step, where] = this.release();
    for (const storage of region.entering) {
      const death = script.death[storage];
      if (death >= 0 && (death < step || (death === step && where > part.end)))
        script.die(storage, step, where);
      script.liveTo(storage, step, where);  // whatever another region makes of it
    }
    for (const storage of region.kept.keys())
      if (region.isInBackward(script.death[storage]) && !region.entering.has(storage))
        script.die(storage, ...this.endWithoutSlots(storage));
  }

  // Where the checkpoint lets go of what enters: at the region's end. One that the backward pass
  // goes by is released before the next rule that runs, and one behind its start with the tape.
  release() {
    const { region, script } = this;
    if (region.b1 >= 0) return [region.b1, part.after];
    const steps = (nodes) => nodes.filter((step) => step >= 0);
    const isPassed = steps(script.backward.slice(region.last + 1)).length > 0;
    const later = steps(script.backward.slice(0, region.first));
    if (isPassed && later.length > 0)
      return [later.reduce((a, b) => Math.min(a, b)), part.start];
    return [script.own.length - 1, part.end];
  }

  endWithoutSlots(storage) {
    const { region, script, was } = this;
    if (!region.born.has(storage)) return [script.own.length - 1, part.end];
    const keeper = this.keeperOutside(storage);
    if (keeper >= 0) return [keeper, part.end];
    if (storage !== was.storage(region.result)) return [region.f1, part.after];
    const reader = was.readers.lastOfStorage[storage];
    return [Math.max(region.f1, reader < 0 ? -1 : script.forward[reader]), part.end];
  }

  // The backward step of the first operation after the region that keeps the storage, or -1.
  keeperOutside(storage) {
    for (const slot of this.was.keepers.ofStorage[storage]) {
      const keeper = this.was.saved[slot].node;
      if (keeper > this.region.last && this.script.backward[keeper] >= 0)
        return this.script.backward[keeper];
    }
    return -1;
  }

  // ---- the second run, and the backward pass inside ----

  runAgain() {
    const { region, script, was, result } = this;
    const copies = new Map();
    for (let step = region.f0; step <= region.f1; ++step)
      script.insertBefore(region.b0, this.runStepAgain(step, copies));
    for (const [storage, copy] of copies) script.die(copy, ...this.endOfCopy(storage));
    for (let step = region.b0; step <= region.b1; ++step) {
      const { node } = was.steps[step];
      if (region.contains(node)) result.steps[step] = { ...result.steps[step],
        node: this.clone(node) };
    }
  }

  runStepAgain(step, copies) {
    const was = this.was.steps[step];
    const again = { ...was, phase: "backward",
      node: this.region.contains(was.node) ? this.clone(was.node) : was.node };
    const events = [];
    for (const { storage, birth } of this.region.eventsInside(this.script, step)) {
      if (!this.region.born.has(storage)) continue;
      if (birth) copies.set(storage, this.copy(storage));
      events.push({ storage: copies.get(storage), birth });
      if (!birth) copies.delete(storage);
    }
    return { step: again, events };
  }

  // Saved is what the region's own slots keep.
  copy(storage) {
    const copy = this.script.copy(storage), { storages } = this.result;
    if (!this.region.kept.has(storage)) storages[copy] = unsaved(storages[copy]);
    return copy;
  }

  endOfCopy(storage) {
    const { region, script, was } = this;
    if (storage === was.storage(region.result)) return [region.b1, part.after];
    if (!region.kept.has(storage)) return [region.b0, part.start];
    for (let n = region.kept.get(storage); n <= region.last; ++n)
      if (script.backward[n] >= 0) return [script.backward[n], part.end];
    return [region.b1, part.after];
  }

  // No step tells what runs again: all of the region, when its gradients are asked for.
  cloneAll() {
    for (let n = this.region.first; n <= this.region.last; ++n) this.clone(n);
  }

  clone(node) {
    if (!this.clones.has(node)) {
      this.clones.set(node, this.result.nodes.length);
      this.result.nodes.push({ ...this.was.nodes[node], recomputed: true });
      const { output } = this.was.nodes[node];
      if (output !== this.region.result) this.setProducer(output, this.clones.get(node));
    }
    return this.clones.get(node);
  }
}

// What no slot keeps any more is not saved.
function markTransient(storages, graph) {
  const keepers = new Keepers(graph);
  for (const id of storages)
    if (keepers.ofStorage[id].length === 0) graph.storages[id] = unsaved(graph.storages[id]);
}

// What all regions ask of the graph as it was.
function original(graph) {
  return { ...graph, keepers: new Keepers(graph), readers: new Readers(graph),
    slotsOfNode: slotsOfNodes(graph), storage: (value) => graph.values[value].storage };
}

// What enters the regions is held by the checkpoints: nothing is written over it.
function findHolds(graph, regions) {
  const holds = [];
  for (const { first, last } of regions)
    for (let n = first; n <= last; ++n)
      for (const value of graph.nodes[n].inputs) {
        const { producer } = graph.values[value];
        if (producer < first || producer > last) holds.push({ value, from: first });
      }
  return holds;
}

const isCheckpoint = (nodes, { first, last }) =>
  first === last && nodes[last].operation === "checkpoint";

// The regions that one pattern matches, as a checkpoint can be made of them.
function regionsOfPattern(graph, pattern) {
  const { nodes } = graph;
  const regions = findRegions(graph, pattern).filter(({ path }) => path !== "");
  if (regions.length === 0)
    throw new Error(`${rootName} is no module that runs as one: name the modules that are to be ` +
      "checkpoints");
  const rest = regions.filter((region) => !isCheckpoint(nodes, region));
  if (rest.length === 0)
    throw new Error(`${regions[0].path} is a checkpoint already, and so is all that matches ` +
      `"${pattern}"`);
  for (const { path, first, last } of rest)
    for (let n = first; n <= last; ++n)
      if (nodes[n].operation === "checkpoint")
        throw new Error(`${path} has the checkpoint ${nodes[n].module} in it; ` +
          "what one around it would do is not predicted");
  return rest;
}

// Those of all patterns, in order, those left out that lie within another one.
function regionsToCheckpoint(graph, patterns) {
  const all = patterns.flatMap((pattern) => regionsOfPattern(graph, pattern));
  all.sort((a, b) => a.first - b.first || b.last - a.last || a.path.length - b.path.length);
  const outer = [];
  for (const region of all)
    if (outer.length === 0 || outer.at(-1).last < region.last) outer.push(region);
  return outer;
}

// What whatif.h says of constants that others than the region keep, too, as a mask that layers
// share. The twin of bound_of_shared() in whatif_matches.cpp.
function sharedNote(graph, keepers, isBorn, { path, first, last }, told) {
  const contains = (node) => first <= node && node <= last;
  const notes = graph.saved.filter((slot) => {
    const { storage, producer, leaf } = graph.values[slot.value];
    if (!contains(slot.node) || slot.packing >= 0 || producer >= 0 || leaf ||
        !isBorn.has(storage) || told.has(storage) || keepers.ofStorage[storage].every((other) =>
      contains(graph.saved[other].node)))
      return false;
    told.add(storage);
    return true;
  }).map(({ slot, value }) => `the ${slot} ${shapeText(graph.values[value].shape)}, which ` +
    "operations outside it keep too, is taken to be held to the end: if each makes its own, the " +
    `peak is lower, by at most ${formatCount(graph.storages[graph.values[value].storage].bytes)} ` +
    "bytes");
  return notes.length > 0 ? `${path}: ${notes.join("; ")}.` : "";
}

/**
 * What there is to say of modules that match and become no checkpoint, and of what is not exact: a
 * list of sentences.
 */
export function checkpointNotes(graph, patterns) {
  const keepers = new Keepers(graph), told = new Set();
  const isBorn = new Set(graph.events.filter(({ birth }) => birth).map(({ storage }) => storage));
  const chosen = regionsToCheckpoint(graph, patterns), notes = new Set();
  const found = patterns.flatMap((pattern) => findRegions(graph, pattern));
  for (const region of found.filter(({ path }) => path !== "")) {
    const { path } = chosen.find(({ first, last }) => first <= region.first &&
      region.first <= last) ?? region;
    if (isCheckpoint(graph.nodes, region)) notes.add(`${region.path} is a checkpoint already.`);
    else if (path !== region.path)
      notes.add(`${region.path} is already inside the checkpoint ${path}.`);
    else notes.add(sharedNote(graph, keepers, isBorn, region, told));
  }
  if (found.some(({ path }) => path === ""))
    notes.add(`Left as they are: 1, as ${rootName}: no module that runs as one.`);
  return [...notes].filter(Boolean);
}

/**
 * Every region that one of the patterns matches as a checkpoint. Throws an Error that says why not.
 */
export function checkpointed(asIs, patterns) {
  const regions = regionsToCheckpoint(asIs, patterns);
  const graph = withHeld(asIs, findHolds(asIs, regions));
  const was = original(graph), result = copyOfLists(graph);
  const script = new Script(result);
  const inside = new Set();
  for (const { first, last } of regions) for (let n = first; n <= last; ++n) inside.add(n);
  result.saved = result.saved.filter((slot) => !inside.has(slot.node));
  const sums = [], kept = new Set();  // storages: those that the regions' own slots kept
  for (const nodes of regions) {
    const region = new Region(was, nodes, script);
    sums.push(new Checkpoint(region, result, script).apply());
    for (const storage of region.kept.keys()) if (region.born.has(storage)) kept.add(storage);
  }
  if (script.hasEvents) script.finish();
  markTransient(kept, result);
  for (let i = regions.length; i-- > 0;)  // as the backward pass meets them
    if (sums[i] >= 0) passOnSum(regions[i], sums[i], result);
  for (const { last } of regions) inside.delete(last);
  dropNodes(result, inside, new Set());
  return result;
}

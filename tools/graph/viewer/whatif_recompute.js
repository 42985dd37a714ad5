// What-if: saved slots made again where they are read. The twin of whatif_recompute.cpp; whatif.h
// tells every edit.
import { Keepers, existsAnyway, slotLabel, slotLabelWithoutNumbers } from "./graph.js";
import { formatCount, plural } from "./format.js";
import { nearNames } from "./near_names.js";
import { Readers, matchesWhole } from "./regions.js";
import { Script, part } from "./script.js";
import { copyOfLists } from "./whatif_donation.js";

// Beyond this many operations that run again the answer is plain, and the graph too large to hold.
const mostRuns = 1000000;

// Slots, as rows of graph.saved: those that one of the patterns matches and that can be made again,
// and those that it matches and that stay, since no operation made them.
function choose(graph, patterns) {
  const chosen = new Set(), stays = new Set(), labels = new Set();
  const found = graph.saved.map((slot) => {
    if (graph.nodes[slot.node].recomputed || slot.packing >= 0) return [];
    const label = slotLabel(graph, slot);
    labels.add(label);
    return [label, slotLabelWithoutNumbers(graph, slot)];
  });
  for (const pattern of patterns) {
    const matching = [...found.keys()].filter((i) =>
      found[i].some((name) => matchesWhole(pattern, name)));
    const isResult = (i) => graph.values[graph.saved[i].value].producer >= 0;
    if (matching.length === 0)
      throw new Error(`no saved slot matches "${pattern}"${nearNames(pattern, labels)}`);
    if (!matching.some(isResult))
      throw new Error(`${found[matching[0]][0]} is no result of an operation that could run again`);
    for (const i of matching) (isResult(i) ? chosen : stays).add(i);
  }
  return { chosen, stays };
}

// Why nothing is freed when the slot is made again; "" where that does free something, if not for
// the first time. The twin of match_of() in whatif_matches.cpp.
function whyNothing(graph, keepers, chosen, i) {
  const { storage } = graph.values[graph.saved[i].value];
  if (existsAnyway(graph.storages[storage]))
    return "it shows a parameter or an input, which lives without the slot";
  const other = keepers.ofStorage[storage].find((slot) => !chosen.has(slot));
  return other === undefined ? ""
    : `${slotLabel(graph, graph.saved[other])} keeps the same storage`;
}

// A sentence for the first slot of those that free nothing, and how many are like it.
function nothingFreed(graph, chosen) {
  const keepers = new Keepers(graph);
  const all = [...chosen].map((i) => [i, whyNothing(graph, keepers, chosen, i)])
    .filter(([, why]) => why !== "");
  if (all.length === 0) return [];
  const [[first, why]] = all, label = slotLabel(graph, graph.saved[first]);
  return [all.length === 1 ? `${label} frees nothing: ${why}.`
    : `${plural(all.length, "slot")} free nothing, as ${label}: ${why}.`];
}

/** What there is to say of what the patterns match: a list of sentences. */
export function recomputeNotes(graph, patterns) {
  const { chosen, stays } = choose(graph, patterns);
  const notes = nothingFreed(graph, chosen);
  if (chosen.size > patterns.length) notes.unshift(`Recomputed: ${plural(chosen.size, "slot")}.`);
  if (stays.size > 0) notes.push(`Left as they are: ${formatCount(stays.size)}, as ` +
    `${slotLabel(graph, graph.saved[[...stays][0]])}: no operation that could run again made it.`);
  return notes;
}

class Recomputation {
  constructor(was, result) {
    Object.assign(this, { was, result, keepers: new Keepers(was), readers: new Readers(was),
      script: new Script(result), runs: 0 });
  }

  apply(patterns) {
    // In the order of the slots, as the library goes through them.
    this.chosen = new Set([...choose(this.was, patterns).chosen].sort((a, b) => a - b));
    for (const i of this.chosen) this.makeAgain(this.was.saved[i]);
    if (this.script.hasEvents) for (const i of this.chosen) this.freeStorage(this.was.saved[i]);
    this.result.saved = this.was.saved.filter((_, i) => !this.chosen.has(i));
    if (this.script.hasEvents) this.script.finish();
  }

  storage(value) { return this.was.values[value].storage; }

  // Whether the value can be had when the rule of `node` runs: slots of later operations are gone
  // by then.
  isThere(value, node) {
    if (this.was.values[value].producer < 0) return true;
    return this.keepers.ofStorage[this.storage(value)].some((slot) =>
      !this.chosen.has(slot) && this.was.saved[slot].node <= node);
  }

  // The operations that must run again for the slot, and the storages that they fill.
  makeAgain(slot) {
    const nodes = new Set(), storages = new Set();
    const wanted = [slot.value];
    while (wanted.length > 0) {
      const value = wanted.pop();
      if (this.isThere(value, slot.node)) continue;
      const { producer } = this.was.values[value];
      if (nodes.has(producer)) continue;
      nodes.add(producer);
      storages.add(this.storage(value));
      if (++this.runs > mostRuns)
        throw new Error("more than 1,000,000 operations would run again");
      wanted.push(...this.was.nodes[producer].inputs);
    }
    const inOrder = (set) => [...set].sort((a, b) => a - b);
    for (const node of inOrder(nodes))
      this.result.nodes.push({ ...this.was.nodes[node], recomputed: true });
    const step = this.script.hasEvents ? this.script.backward[slot.node] : -1;
    if (step < 0) return;
    for (const id of inOrder(storages)) {
      const copy = this.script.copy(id);
      this.script.beBorn(copy, step, part.start);
      this.script.die(copy, step, part.end);
    }
  }

  freeStorage(slot) {
    const { was, script } = this;
    const id = this.storage(slot.value);
    const death = script.death[id];
    const all = this.keepers.ofStorage[id].every((keeper) => this.chosen.has(keeper));
    if (!all || death < 0 || was.steps[death].phase !== "backward") return;
    const last = Math.max(was.values[slot.value].producer, this.readers.lastOfStorage[id]);
    if (script.forward[last] >= 0) script.die(id, script.forward[last], part.end);
  }
}

/**
 * The graph with the slots that one of the patterns matches made again. Throws an Error that says
 * why not.
 */
export function recomputed(graph, patterns) {
  const result = copyOfLists(graph);
  new Recomputation(graph, result).apply(patterns);
  return result;
}

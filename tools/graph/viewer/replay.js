// What was live when: the events of a graph, added up.
import { categories, slotsOfNodes, storagesOfSlots } from "./graph.js";

const categoryIndex = new Map(categories.map((name, i) => [name, i]));

const transientIndex = categoryIndex.get("transient");

export const indexOfCategory = (storage) => categoryIndex.get(storage.category);

function liveAtFirst(graph) {
  const live = new Uint8Array(graph.storages.length).fill(1);
  for (const event of graph.events) if (event.birth) live[event.storage] = 0;
  return live;
}

/**
 * Live bytes through the steps; null without events.
 *   unwatched   bytes live before, and met by no operation: counted throughout
 *   after       by step, bytes of each category at its end
 *   highest     by step, the most that was live within it, unwatched bytes too
 *   atHighest   by step, bytes of each category at that moment
 *   transient   by step, the most bytes of the category transient that were live within it
 *   lastEvent   by step, how many events had happened by that moment
 *   peak, peakStep, peakEvents   the highest of all, the first step that reached it (-1: before
 *               any), and how many events had happened
 */
export function replay(graph) {
  if (graph.events.length === 0) return null;
  const now = new Float64Array(categories.length);
  const live = liveAtFirst(graph);
  let total = 0, next = 0;
  const add = (storage, sign) => {
    now[indexOfCategory(storage)] += sign * storage.bytes;
    total += sign * storage.bytes;
  };
  live.forEach((is, id) => { if (is) add(graph.storages[id], 1); });
  // A file may know storages from before that it does not count among live_before.
  const unwatched = Math.max(graph.liveBefore - total, 0);
  const line = { unwatched, after: [], highest: [], atHighest: [], transient: [], lastEvent: [],
    peak: unwatched + total, peakStep: -1, peakEvents: 0 };
  graph.steps.forEach((_, step) => {
    let highest = line.unwatched + total, at = now.slice(), until = next;
    let transient = now[transientIndex];
    for (; next < graph.events.length && graph.events[next].step === step; ++next) {
      const event = graph.events[next];
      add(graph.storages[event.storage], event.birth ? 1 : -1);
      transient = Math.max(transient, now[transientIndex]);
      if (line.unwatched + total <= highest) continue;
      highest = line.unwatched + total;
      at = now.slice();
      until = next + 1;
    }
    if (highest > line.peak)
      Object.assign(line, { peak: highest, peakStep: step, peakEvents: until });
    line.after.push(now.slice());
    line.highest.push(highest);
    line.atHighest.push(at);
    line.transient.push(transient);
    line.lastEvent.push(until);
  });
  return line;
}

/** Storages that are live after so many events, the largest first. */
export function liveStorages(graph, events) {
  const live = liveAtFirst(graph);
  for (let i = 0; i < events; ++i) live[graph.events[i].storage] = graph.events[i].birth ? 1 : 0;
  const ids = [];
  live.forEach((is, id) => { if (is) ids.push(id); });
  return ids.sort((a, b) => graph.storages[b].bytes - graph.storages[a].bytes || a - b);
}

/**
 * Steps of each storage: born, freed (-1 when not seen), and lastNeeded, the last step whose
 * operation read it or whose rule read a slot that keeps it; -1 when none did.
 */
export function lifetimes(graph) {
  const lives = graph.storages.map(() => ({ born: -1, freed: -1, lastNeeded: -1 }));
  for (const event of graph.events)
    lives[event.storage][event.birth ? "born" : "freed"] = event.step;
  const slotsOfNode = slotsOfNodes(graph);
  graph.steps.forEach((step, i) => {
    if (step.node < 0) return;
    const node = graph.nodes[step.node];
    const need = (storage) => { lives[storage].lastNeeded = i; };
    if (step.phase === "forward") {
      for (const input of node.inputs) need(graph.values[input].storage);
      need(graph.values[node.output].storage);
    }
    if (step.phase === "backward") storagesOfSlots(graph, slotsOfNode[step.node]).forEach(need);
  });
  return lives;
}

// Work in place, undone; for what-if questions. The twin of donation.cpp, and donation.h tells the
// edit.
import { views } from "./operations.js";

/** A graph whose lists may be changed; the rows are those of `graph`. */
export function copyOfLists(graph) {
  const { nodes, values, storages, packings, saved, steps, events, liveBefore } = graph;
  return { nodes: [...nodes], values: [...values], storages: [...storages], packings,
    saved: [...saved], steps: [...steps], events, liveBefore };
}

// Operations whose result may lie in an operand's storage without writing to it. A checkpoint's
// function may end in one.
const showing = new Set([...views, "checkpoint"]);

// By storage, the operations that wrote over what stood in it, in order.
function findWriters({ nodes, values }) {
  const writers = new Map();
  nodes.forEach((node, n) => {
    if (node.recomputed || showing.has(node.operation)) return;
    const { storage } = values[node.output];
    if (!node.inputs.some((input) => values[input].storage === storage)) return;
    if (!writers.has(storage)) writers.set(storage, []);
    writers.get(storage).push(n);
  });
  return writers;
}

// Those that a hold keeps from writing, in order.
function findKeptOff(graph, holds) {
  const writers = findWriters(graph), keptOff = new Set();
  for (const { value, from } of holds) {
    const first = writers.get(graph.values[value].storage)?.find((n) => n >= from);
    if (first !== undefined) keptOff.add(first);
  }
  return [...keptOff].sort((a, b) => a - b);
}

// A storage of its own for the operation's result and what later shows it. Returns the storage.
function moveResult(graph, node) {
  const { output, operation } = graph.nodes[node], was = graph.values[output].storage;
  const storage = graph.storages.length, { bytes, category } = graph.storages[was];
  graph.storages.push({ bytes, category, operation });
  // Constants are met in order: one that is met later shows what stands there later.
  const isLater = ({ producer }, id) => (producer < 0 ? output < id : node <= producer);
  graph.values = graph.values.map((value, id) =>
    value.storage === was && isLater(value, id) ? { ...value, storage } : value);
  return storage;
}

function moveEvents(graph, was, is, step) {
  const events = graph.events.map((event) =>
    event.storage === was && !event.birth ? { ...event, storage: is } : event);
  const isOwnBirth = ({ storage, birth }) =>
    birth && graph.storages[storage].operation === graph.steps[step].operation;
  const place = (goesThere) => {
    const found = events.findIndex(goesThere);
    return found < 0 ? events.length : found;
  };
  events.splice(place((event) => event.step > step || (event.step === step && isOwnBirth(event))),
    0, { step, storage: is, birth: true });
  events.splice(place((event) => event.step > step), 0, { step, storage: was, birth: false });
  graph.events = events;
}

/** The graph with these values held: {value, from}, a value and a node. */
export function withHeld(graph, holds) {
  const keptOff = findKeptOff(graph, holds);
  if (keptOff.length === 0) return graph;
  const result = copyOfLists(graph), steps = new Map();
  graph.steps.forEach(({ node, phase }, i) => {
    if (phase === "forward" && !steps.has(node)) steps.set(node, i);
  });
  for (const node of keptOff) {
    const was = result.values[result.nodes[node].output].storage, is = moveResult(result, node);
    if (steps.has(node)) moveEvents(result, was, is, steps.get(node));
  }
  return result;
}

// A graph of the format tapehead-graph/1, read and indexed. The rows stay as the file has them, but
// that an id which is missing is -1, as in the library.
import { checkFile } from "./check.js";
import { place, straight } from "./format.js";
import { keyOf, sumOf } from "./lists.js";

export const categories = ["parameter", "optimizer_state", "input", "constant", "saved",
  "gradient", "transient"];

const sizes = { f64: 8, i64: 8, f32: 4, bf16: 2, f16: 2, bool: 1 };

/** Bytes of an element. */
export const elementBytes = (dtype) => sizes[dtype];

export const elements = (shape) => shape.reduce((product, dim) => product * dim, 1);

/** Bytes of the distinct elements that the value shows: an expanded dim shows the same again. */
export function neededBytes(value) {
  return value.shape.reduce((bytes, dim, i) =>
    value.strides[i] !== 0 || dim === 0 ? bytes * dim : bytes, elementBytes(value.dtype));
}

// Marks that turn text round, as they are or as JSON escapes them; they are rare.
const turning =
  /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|\\u(061c|200[ef]|202[a-e]|206[6-9])/i;

const straightened = (key, value) => (typeof value === "string" ? straight(value) : value);

/**
 * The graph in a file's text. Throws an Error that says why when it is none, or when its bytes or
 * its flops add up to more than `most`.
 */
export function readGraph(text, most = Infinity) {
  const file = JSON.parse(text, turning.test(text) ? straightened : undefined);
  if (file?.format !== "tapehead-graph/1") throw new Error("its format is not tapehead-graph/1");
  checkFile(file, { categories, sizes, most });
  return {
    nodes: file.nodes.map((node) =>
      ({ recomputed: false, planned: false, donatable: [], ...node })),
    values: file.values.map((value) => ({ ...value, producer: value.producer ?? -1 })),
    storages: file.storages.map((storage) => ({ operation: "", ...storage })),
    packings: file.packings ?? [],
    saved: file.saved.map((slot) => ({ packing: -1, ...slot })),
    steps: (file.steps ?? []).map((step) => ({ ...step, node: step.node ?? -1 })),
    events: file.events ?? [],
    liveBefore: file.live_before ?? 0,
  };
}

// ---- names -------------------------------------------------------------------------------------
// By them no two operations and no two slots are mistaken for one another. The twin of labels.cpp;
// labels.h tells what has a number.

// For each key which one it is of its equals, from 1, and whether there are several.
function numbersOf(keys) {
  const counts = new Map();
  const numbers = keys.map((key) => {
    counts.set(key, (counts.get(key) ?? 0) + 1);
    return counts.get(key);
  });
  return keys.map((key, i) => ({ occurrence: numbers[i], isOneOfSeveral: counts.get(key) > 1 }));
}

const numbersOfGraph = new WeakMap();

// The rows of a graph whose names were asked for do not change any more.
function numbersIn(graph) {
  if (!numbersOfGraph.has(graph)) numbersOfGraph.set(graph, {
    nodes: numbersOf(graph.nodes.map(({ module, operation, recomputed }) =>
      keyOf(module, operation, recomputed))),
    slots: new Map(numbersOf(graph.saved.map(({ node, slot }) => keyOf(node, slot)))
      .map((number, i) => [graph.saved[i], number])) });
  return numbersOfGraph.get(graph);
}

const numbered = (name, { occurrence, isOneOfSeveral }) =>
  (isOneOfSeveral ? `${name}#${occurrence}` : name);

/** Which one a node is of those with its operation in its module, from 1. */
export const occurrenceOf = (graph, id) => numbersIn(graph).nodes[id].occurrence;

/** "matmul#2": the operation, with its number where it is one of several. */
export const operationLabel = (graph, id) =>
  numbered(graph.nodes[id].operation, numbersIn(graph).nodes[id]);

/** "layers.0.self_attn matmul#2". */
export const nodeLabel = (graph, id) => place(operationLabel(graph, id), graph.nodes[id].module);

/** Which one a slot is of those with its name in its node, from 1. */
export const occurrenceOfSlot = (graph, slot) => numbersIn(graph).slots.get(slot).occurrence;

const slotName = (graph, slot) => numbered(slot.slot, numbersIn(graph).slots.get(slot));

/** "matmul#2.b". */
export const slotLabelInModule = (graph, slot) =>
  `${operationLabel(graph, slot.node)}.${slotName(graph, slot)}`;

/** "layers.0.self_attn matmul#2.b". */
export const slotLabel = (graph, slot) =>
  place(slotLabelInModule(graph, slot), graph.nodes[slot.node].module);

/** "layers.0.self_attn matmul.b": what slots that differ in their numbers alone have in common. */
export function slotLabelWithoutNumbers(graph, slot) {
  const { operation, module } = graph.nodes[slot.node];
  return `${place(operation, module)}.${slot.slot}`;
}

/**
 * For each storage and packing the slots that keep it, in the order of graph.saved, those of
 * recomputed nodes left out: what they save comes and goes within a rule.
 */
export class Keepers {
  constructor(graph) {
    this.ofStorage = graph.storages.map(() => []);
    this.ofPacking = graph.packings.map(() => []);
    graph.saved.forEach((slot, i) => {
      if (graph.nodes[slot.node].recomputed) return;
      if (slot.packing >= 0) this.ofPacking[slot.packing].push(i);
      else this.ofStorage[graph.values[slot.value].storage].push(i);
    });
  }
}

/** The slots of each node, in the order of graph.saved. */
export function slotsOfNodes(graph) {
  const slots = graph.nodes.map(() => []);
  for (const slot of graph.saved) slots[slot.node].push(slot);
  return slots;
}

/** The storages that these slots keep, once each; what is packed is none. */
export const storagesOfSlots = (graph, slots) => [...new Set(slots
  .filter(({ packing }) => packing < 0).map(({ value }) => graph.values[value].storage))];

/** Whether a storage lives without any slot: a parameter or an input. */
export const existsAnyway = (storage) =>
  storage.category === "parameter" || storage.category === "input";

/** Bytes that the slots keep: of activations, and of all. */
export function savedBytes(graph, keepers = new Keepers(graph)) {
  let activations = 0, all = 0;
  keepers.ofStorage.forEach((slots, id) => {
    if (slots.length === 0) return;
    const storage = graph.storages[id];
    all += storage.bytes;
    if (!existsAnyway(storage)) activations += storage.bytes;
  });
  keepers.ofPacking.forEach((slots, id) => {
    if (slots.length === 0) return;
    all += graph.packings[id].bytes;
    activations += graph.packings[id].bytes;
  });
  return { activations, all };
}

/** Floating-point operations of every node, recomputed ones too. */
export const allFlops = (graph) => sumOf(graph.nodes, "flops");

// What is known of a storage by its category alone. The twin of reason_of() in timeline.cpp.
const reasonOfCategory = {
  parameter: "what is trained",
  optimizer_state: "moments that the optimizer keeps between steps",
  input: "what the step reads",
  constant: "neither read nor trained",
  saved: "kept for the backward pass",
  gradient: "what the optimizer steps by",
  transient: "live before the step, and kept by no slot",
};

/** Why each storage exists, in one line. */
export function reasons(graph) {
  const why = graph.storages.map(() => []);
  const made = graph.storages.map(() => "");
  for (const slot of graph.saved)
    why[graph.values[slot.value].storage].push(`${slotLabel(graph, slot)}: ${slot.reason}`);
  for (const value of graph.values)
    if (value.name && value.offset === 0) made[value.storage] = value.name;
  for (const event of graph.events) {
    if (!event.birth || made[event.storage]) continue;
    const storage = graph.storages[event.storage];
    const step = graph.steps[event.step];
    // An optimizer makes what it keeps of all parameters before it updates the first.
    const when = storage.category === "optimizer_state" ? ", which keeps it between steps" :
      ` in ${step.phase} of ${place(step.operation, step.module)}`;
    made[event.storage] = `made by ${storage.operation}${when}`;
  }
  return why.map((list, id) => list.join("; ") || made[id] ||
    reasonOfCategory[graph.storages[id].category]);
}

/** The value of a node's attribute; undefined where it has none of that name. */
export const attribute = (node, name) => node.attributes.find((one) => one.name === name)?.value;

/** "dim -1", "value \"-inf\"": the name and the value as JSON. */
export function describeAttribute({ name, type, value }) {
  if (type === "float" && typeof value === "number" && Number.isInteger(value) &&
      Math.abs(value) < 1e16)
    return `${name} ${value.toFixed(1)}`;
  return `${name} ${JSON.stringify(value)}`;
}

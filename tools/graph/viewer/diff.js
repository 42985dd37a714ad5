// What changed between two graphs, aligned by module path, operation and occurrence. The twin of
// diff.cpp.
import { describeAttribute, nodeLabel, occurrenceOf, occurrenceOfSlot, slotLabel }
  from "./graph.js";
import { describe, formatCount } from "./format.js";
import { append, keyOf } from "./lists.js";
import { makerLabel, nameLabel } from "./maker.js";

function describeNode(graph, node) {
  const values = (ids) => ids.map((id) => describe(graph.values[id])).join(", ");
  const parts = [`${values(node.inputs)} to ${describe(graph.values[node.output])}`,
    ...node.attributes.map(describeAttribute)];
  if (node.flops > 0) parts.push(`${formatCount(node.flops)} flops`);
  if (node.planned) parts.push("planned");
  return parts.join(", ");
}

function describeSlot(graph, slot) {
  const packed = slot.packing >= 0 ? ` packed as ${graph.packings[slot.packing].how}` : "";
  const { length } = slot.for_inputs;
  const inputs = `input${length === 1 ? "" : "s"}${length > 0 ? " " : ""}` +
    slot.for_inputs.join(", ");
  return `${describe(graph.values[slot.value])}${packed}, for ${inputs}: ${slot.reason}`;
}

// For each node a key that it shares with the node of another graph that it is compared with.
const keysOf = (graph) => graph.nodes.map(({ module, operation, recomputed }, id) =>
  keyOf(module, operation, recomputed, occurrenceOf(graph, id)));

const marked = (label, { recomputed }) => (recomputed ? `${label} (recomputed)` : label);

// The things of one graph by their keys, in the graph's order.
function nodesOf(graph, keys) {
  return new Map(graph.nodes.map((node, i) => [keys[i], {
    place: marked(nodeLabel(graph, i), node), description: describeNode(graph, node), bytes: 0,
    like: null, name: "", madeBy: "", id: i }]));
}

function slotsOf(graph, keys) {
  return new Map(graph.saved.map((slot, i) => {
    const node = graph.nodes[slot.node], value = graph.values[slot.value];
    return [keyOf(keys[slot.node], slot.slot, occurrenceOfSlot(graph, slot)), {
      place: marked(slotLabel(graph, slot), node),
      description: describeSlot(graph, slot),
      bytes: slot.packing >= 0 ? graph.packings[slot.packing].bytes
        : graph.storages[value.storage].bytes,
      like: `${node.operation}.${slot.slot} ${describe(value)}`,
      name: nameLabel(graph, slot.value), madeBy: makerLabel(graph, slot.value), id: i }];
  }));
}

// Slots that are gone, for those that are new to be looked up among: the first of each kind first.
class Gone {
  constructor() { this.entries = new Map(); }
  add({ like, bytes }, entry) {
    const key = keyOf(like, bytes);
    if (like) append(this.entries, key, entry);
  }
  take({ like, bytes }) { return like ? this.entries.get(keyOf(like, bytes))?.shift() : undefined; }
}

function compare(a, b) {
  const entries = [], gone = new Gone();
  for (const [key, was] of a) {
    const is = b.get(key);
    if (is && is.description === was.description && is.bytes === was.bytes) continue;
    const entry = { kind: is ? "changed" : "removed", place: was.place, to: "",
      name: was.name, madeBy: was.madeBy, before: was.description,
      after: is?.description ?? "", bytesBefore: was.bytes,
      bytesAfter: is?.bytes ?? 0, idBefore: was.id, idAfter: is?.id ?? -1 };
    entries.push(entry);
    if (!is) gone.add(was, entry);
  }
  for (const [key, is] of b) {
    if (a.has(key)) continue;
    const moved = gone.take(is);
    const after = { after: is.description, bytesAfter: is.bytes, idAfter: is.id };
    if (moved) Object.assign(moved, after, { kind: "moved", to: is.place });
    else entries.push({ kind: "added", place: is.place, to: "", name: is.name,
      madeBy: is.madeBy, before: "",
      bytesBefore: 0, idBefore: -1, ...after });
  }
  return entries;
}

/** For each node of B the node of A that it is compared with, or -1. */
export function alike(a, b) {
  const ids = new Map(keysOf(a).map((key, id) => [key, id]));
  return keysOf(b).map((key) => ids.get(key) ?? -1);
}

/**
 * Entries {kind, place, to, name, madeBy, before, after, bytesBefore, bytesAfter} of operations and
 * of slots, in the order of A, then what was added; idBefore and idAfter are rows of the graphs, or
 * -1.
 */
export function diff(a, b) {
  const inA = keysOf(a), inB = keysOf(b);
  return { nodes: compare(nodesOf(a, inA), nodesOf(b, inB)),
    slots: compare(slotsOf(a, inA), slotsOf(b, inB)) };
}

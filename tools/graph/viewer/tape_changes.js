// What differs from a second graph, as the drawing of the tape marks it.
import { alike } from "./diff.js";
import { storagesOfSlots } from "./graph.js";
import { append, sumOf } from "./lists.js";
import { isWithin } from "./module_tree.js";

/** Marks of operations and slots of this graph, and the operations that only the other one has. */
export class TapeChanges {
  constructor({ model, other, changeEntries }) {
    this.ofNode = new Map();   // "changed" or "removed"
    this.ofSlot = new Map();   // and "moved"
    this.added = new Map();    // behind which of this graph's nodes, -1 for none: {id, key}
    this.other = other;
    if (!other) return;
    const keys = new Map();
    for (const { idBefore, idAfter, kind, slot, id } of changeEntries) {
      if (idBefore >= 0) (slot ? this.ofSlot : this.ofNode).set(idBefore, kind);
      else if (!slot) keys.set(idAfter, `change:${id}`);
    }
    const same = alike(model.graph, other.graph);
    this.findAdded(model.graph, other.graph, keys, same);
    this.findKept(other.graph, same);
  }

  // Each stands behind what runs before it in its own graph; a checkpoint behind the last of the
  // operations that it stands for.
  findAdded({ nodes }, other, keys, same) {
    const lastWithin = (path) => nodes.findLastIndex(({ module, recomputed }) =>
      !recomputed && isWithin(module, path));
    let last = -1;
    other.nodes.forEach((node, id) => {
      if (node.recomputed) return;
      if (same[id] >= 0) last = same[id];
      if (same[id] >= 0 || !keys.has(id)) return;
      const within = node.operation === "checkpoint" ? lastWithin(node.module) : -1;
      append(this.added, Math.max(within, last), { id, key: keys.get(id), node });
    });
  }

  // Operations of this graph whose result, or a view of it, the other graph keeps.
  findKept(other, same) {
    this.kept = new Set();
    for (const { node, value } of other.saved) {
      const { producer } = other.values[value];
      if (producer >= 0 && !other.nodes[node].recomputed) this.kept.add(same[producer]);
    }
  }

  /** How a row differs: "added", "changed", "removed" or "". */
  ofRow(row) {
    if (row.kind === "added") return "added";
    const kinds = new Set(row.nodes.map((node) => this.ofNode.get(node)));
    if (kinds.size > 1 || row.added.length > 0) return "changed";
    return [...kinds][0] ?? "";
  }

  /** "removed" when the other graph keeps none of these pieces of memory. */
  ofKept(list, { saved, values }) {
    if (!this.other) return "";
    const isGone = (slot) => this.ofSlot.get(slot) === "removed" &&
      !this.kept.has(values[saved[slot].value].producer);
    return list.every(({ slots }) => slots.every(isGone)) ? "removed" : "";
  }

  /** Bytes that an operation of the other graph keeps. */
  bytesKept(id) {
    const { graph, slotsOfNode } = this.other;
    return sumOf(storagesOfSlots(graph, slotsOfNode[id]).map((storage) =>
      graph.storages[storage]), "bytes");
  }
}

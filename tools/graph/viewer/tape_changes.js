// What differs from a second graph, as the drawing of the tape marks it.
import { alike } from "./diff.js";

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
    this.findAdded(model.graph, other.graph, keys);
  }

  // Each stands behind what runs before it in its own graph, or, when it gives what another
  // operation made, as a checkpoint does, behind that.
  findAdded(graph, other, keys) {
    const same = alike(graph, other);
    let last = -1;
    other.nodes.forEach((node, id) => {
      if (node.recomputed) return;
      if (same[id] >= 0) last = same[id];
      if (same[id] >= 0 || !keys.has(id)) return;
      const { producer } = other.values[node.output];
      const behind = producer >= 0 && producer !== id && same[producer] >= 0 ? same[producer] : last;
      this.added.set(behind, [...(this.added.get(behind) ?? []), { id, key: keys.get(id), node }]);
    });
  }

  /** How a row differs: "added", "changed", "removed" or "". */
  ofRow(row) {
    if (row.kind === "added") return "added";
    const kinds = new Set(row.nodes.map((node) => this.ofNode.get(node)));
    if (kinds.size > 1 || row.added.length > 0) return "changed";
    return [...kinds][0] ?? "";
  }

  /** "removed" when nothing keeps the memory of these rows any more. */
  ofKept(list) {
    return list.every(({ slots }) => slots.every((slot) => this.ofSlot.get(slot) === "removed"))
      ? "removed" : "";
  }

  /** Bytes that an operation of the other graph keeps. */
  bytesKept(id) {
    const { graph, slotsOfNode } = this.other;
    const storages = new Set(slotsOfNode[id].filter(({ packing }) => packing < 0)
      .map(({ value }) => graph.values[value].storage));
    return [...storages].reduce((sum, storage) => sum + graph.storages[storage].bytes, 0);
  }
}

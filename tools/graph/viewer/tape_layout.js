// The tape as rows: operations and folded modules in the order in which they ran, the storages that
// are saved beside what made them, and who reads what.
import { place } from "./format.js";
import { operationLabel } from "./graph.js";
import { append } from "./lists.js";
import { pathsTo } from "./module_tree.js";

/** More rows than this are not drawn; the drawing says how many are left out. */
export const mostRows = 240;

class Layout {
  constructor(model, open, { added = new Map(), withInputs = false } = {}) {
    Object.assign(this, { model, added, withInputs, open: new Set(open), above: [] });
    // {kind: "node", "module", "open" or "added", key, path, inside: open modules around it, name,
    // nodes, added: nodes of the other graph}
    this.rows = [];
    this.rowOfNode = [];
    this.left = 0;   // rows that are not drawn
  }

  build() {
    this.addRows();
    this.left = Math.max(0, this.rows.length - mostRows);
    this.rows.length = Math.min(this.rows.length, mostRows);
    this.findStorages();
    this.findReads();
    return this;
  }

  // Nodes come in runs of one module. A run of a module that is not open is one row; one that is
  // open begins with a row of its own.
  addRows() {
    this.addNew(-1);
    this.model.graph.nodes.forEach((node, id) => {
      if (node.recomputed) return;
      this.addNode(node, id);
      this.addNew(id);
    });
  }

  addNode(node, id) {
    const closed = this.closedAncestor(node.module);
    const last = this.rows[this.rows.length - 1];
    if (closed !== null && last?.path === closed && last.kind === "module") {
      last.nodes.push(id);
      this.rowOfNode[id] = this.rows.length - 1;
      return;
    }
    const inside = this.enter(node.module), parent = inside[inside.length - 1] ?? "";
    this.rowOfNode[id] = this.rows.length;
    this.rows.push(closed === null
      ? { kind: "node", key: `node:${id}`, path: null, inside, nodes: [id],
        name: operationLabel(this.model.graph, id), added: [] }
      : { kind: "module", key: `module:${closed}`, path: closed, inside, nodes: [id], added: [],
        name: closed.slice(parent === "" ? 0 : parent.length + 1) });
  }

  // Operations of the other graph alone: counted in the row of a module that is not open, else rows
  // of their own.
  addNew(behind) {
    for (const { node, id, key } of this.added.get(behind) ?? []) {
      const closed = this.closedAncestor(node.module);
      const home = closed === null ? undefined
        : this.rows.findLast((row) => row.kind === "module" && row.path === closed);
      if (home) home.added.push(id);
      else this.rows.push({ kind: "added", key, path: null, inside: this.enter(node.module),
        nodes: [], added: [id], name: this.model.byPath.has(node.module) && closed === null
          ? node.operation : place(node.operation, node.module) });
    }
  }

  // The open modules around a path, each of which has a row where it begins.
  enter(module) {
    const inside = this.openAncestors(module);
    const same = inside.findIndex((path, i) => this.above[i] !== path);
    this.above = inside;
    if (same < 0) return inside;
    inside.slice(same).forEach((path, i) => this.rows.push({ kind: "open", key: `module:${path}`,
      path, inside: inside.slice(0, same + i), nodes: [], added: [],
      name: path.slice(same + i === 0 ? 0 : inside[same + i - 1].length + 1) }));
    return inside;
  }

  openAncestors(path) {
    return pathsTo(path).filter((part) => this.open.has(part) && this.model.byPath.has(part) &&
      this.closedAncestor(part) === null);
  }

  /** Open modules with their rows: {path, depth, from, to}. */
  frames() {
    const found = [];
    this.rows.forEach((row, from) => {
      if (row.kind !== "open") return;
      let to = from;
      while (this.rows[to + 1]?.inside.includes(row.path)) ++to;
      found.push({ path: row.path, depth: row.inside.length, from, to });
    });
    return found;
  }

  // The outermost module on the path that is not open; null when all are.
  closedAncestor(path) {
    return pathsTo(path).find((part) => this.model.byPath.has(part) && !this.open.has(part)) ??
      null;
  }

  // Each piece of memory once, in the row of what made it or of the first that keeps it.
  findStorages() {
    this.storages = [];
    const { graph } = this.model;
    for (const kept of this.model.kept) {
      if (kept.anyway && !this.withInputs) continue;
      const savers = [...new Set(kept.slots.map((slot) =>
        this.rowOfNode[graph.saved[slot].node]))].filter((row) => row < this.rows.length);
      const producer = kept.value.producer;
      const home = producer >= 0 ? this.rowOfNode[producer] : savers[0];
      if (home === undefined || home >= this.rows.length || savers.length === 0) continue;
      const slots = new Map();
      for (const slot of kept.slots) {
        const row = this.rowOfNode[graph.saved[slot].node];
        if (row < this.rows.length) append(slots, row, graph.saved[slot].slot);
      }
      this.storages.push({ kept, home, slots });
    }
  }

  // Which rows read what which rows made; a read by the next row is a plain step down.
  findReads() {
    const { graph } = this.model;
    const seen = new Set();
    this.reads = [];
    this.rows.forEach((row, to) => {
      for (const node of row.nodes)
        for (const input of graph.nodes[node].inputs) {
          const { producer } = graph.values[input];
          const from = producer < 0 ? undefined : this.rowOfNode[producer];
          if (from === undefined || from >= to || seen.has(from * mostRows + to)) continue;
          seen.add(from * mostRows + to);
          this.reads.push({ from, to });
        }
    });
    this.giveLanes(this.reads.filter(({ from, to }) => to > from + 1));
  }

  // Arcs that overlap run in different lanes.
  giveLanes(arcs) {
    const ends = [];
    for (const arc of arcs.sort((a, b) => a.from - b.from || b.to - a.to)) {
      let lane = ends.findIndex((end) => end <= arc.from);
      if (lane < 0) lane = ends.length;
      ends[lane] = arc.to;
      arc.lane = lane;
    }
    this.lanes = ends.length;
  }
}

/**
 * `added`: operations that only another graph has, by the node that they stand behind
 * (tape_changes.js); `withInputs`: whether parameters and inputs that are saved stand there, too.
 */
export const layoutTape = (model, open, options) => new Layout(model, open, options).build();

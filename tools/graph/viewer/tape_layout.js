// The tape as rows: operations and folded modules in the order in which they ran, the storages that
// are saved beside what made them, and who reads what.

/** More rows than this are not drawn; the drawing says how many are left out. */
export const mostRows = 240;

class Layout {
  constructor(model, open) {
    this.model = model;
    this.open = new Set(open);
    this.rows = [];          // {kind, key, path, name, depth, first, last, nodes}
    this.rowOfNode = [];
    this.modules = [];       // open modules: {path, depth, from, to}
    this.left = 0;
  }

  // Nodes come in runs of one module; a run of a module that is not open is one row.
  build() {
    const { graph } = this.model;
    for (let id = 0; id < graph.nodes.length; ++id) {
      const node = graph.nodes[id];
      if (node.recomputed) continue;
      const closed = this.closedAncestor(node.module);
      const last = this.rows[this.rows.length - 1];
      if (closed !== null && last?.path === closed) {
        last.nodes.push(id);
        this.rowOfNode[id] = this.rows.length - 1;
        continue;
      }
      this.rowOfNode[id] = this.rows.length;
      this.rows.push(closed === null
        ? { kind: "node", key: `node:${id}`, path: null, module: node.module,
          name: node.operation, depth: depthOf(node.module), nodes: [id] }
        : { kind: "module", key: `module:${closed}`, path: closed, module: closed,
          name: closed, depth: depthOf(closed) - 1, nodes: [id] });
    }
    this.left = Math.max(0, this.rows.length - mostRows);
    this.rows.length = Math.min(this.rows.length, mostRows);
    this.findModules();
    this.findStorages();
    this.findReads();
    return this;
  }

  // The outermost module on the path that is not open; null when all are.
  closedAncestor(path) {
    if (path === "") return null;
    let at = 0;
    while (at >= 0) {
      at = path.indexOf(".", at + 1);
      const part = at < 0 ? path : path.slice(0, at);
      if (this.model.byPath.has(part) && !this.open.has(part)) return part;
    }
    return null;
  }

  findModules() {
    for (const path of this.open) {
      const inside = (row) => row.module === path || row.module.startsWith(`${path}.`);
      let from = -1;
      this.rows.forEach((row, i) => {
        if (inside(row) && row.path !== path) {
          if (from < 0) from = i;
          if (i + 1 === this.rows.length) this.addFrame(path, from, i);
        } else if (from >= 0) {
          this.addFrame(path, from, i - 1);
          from = -1;
        }
      });
    }
  }

  addFrame(path, from, to) { this.modules.push({ path, depth: depthOf(path) - 1, from, to }); }

  // Each activation once, in the row of what made it or of the first that keeps it.
  findStorages() {
    this.storages = [];
    const { graph } = this.model;
    for (const kept of this.model.kept) {
      if (kept.anyway) continue;
      const savers = [...new Set(kept.slots.map((slot) =>
        this.rowOfNode[graph.saved[slot].node]))].filter((row) => row < this.rows.length);
      const producer = kept.value.producer;
      const home = producer >= 0 ? this.rowOfNode[producer] : savers[0];
      if (home === undefined || home >= this.rows.length || savers.length === 0) continue;
      const slots = new Map();
      for (const slot of kept.slots) {
        const row = this.rowOfNode[graph.saved[slot].node];
        if (row < this.rows.length) slots.set(row, [...(slots.get(row) ?? []),
          graph.saved[slot].slot]);
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

const depthOf = (path) => (path === "" ? 0 : path.split(".").length);

export const layoutTape = (model, open) => new Layout(model, open).build();

// The modules of a graph as a tree of sums.
import { existsAnyway } from "./graph.js";
import { sumOf } from "./lists.js";

// Paths deeper than this end in one name that holds the rest.
const maxDepth = 32;

// The names in a module's path, none of them for the empty one.
function splitPath(path) {
  if (path === "") return [];
  const parts = path.split(".");
  if (parts.length <= maxDepth) return parts;
  return [...parts.slice(0, maxDepth - 1), parts.slice(maxDepth - 1).join(".")];
}

/** The modules on the way to a path, itself last: "a", "a.b" and "a.b.c"; of "" there are none. */
export const pathsTo = (path) =>
  splitPath(path).map((_, i, names) => names.slice(0, i + 1).join("."));

/** Whether the module is the one at `path` or lies below it; below "" none does. */
export const isWithin = (module, path) => module === path || module.startsWith(`${path}.`);

function newModule(name, path, parent) {
  return { name, path, paths: [path], repeats: 1, operations: 0, activations: 0, others: 0,
    shared: 0, flops: 0, highest: 0, transient: 0, nodes: [], children: [], byName: new Map(),
    parent, depth: parent ? parent.depth + 1 : 0 };
}

class Builder {
  constructor(graph) {
    this.graph = graph;
    this.root = newModule("", "", null);
    this.byPath = new Map([["", this.root]]);
  }

  find(path) {
    const known = this.byPath.get(path);
    if (known) return known;
    let module = this.root;
    for (const name of splitPath(path)) {
      if (!module.byName.has(name)) {
        const child = newModule(name, module.path ? `${module.path}.${name}` : name, module);
        module.byName.set(name, child);
        module.children.push(child);
      }
      module = module.byName.get(name);
    }
    this.byPath.set(path, module);
    return module;
  }

  addNodes() {
    this.graph.nodes.forEach((node, id) => {
      const module = this.find(node.module);
      if (node.recomputed) return;
      module.nodes.push(id);
      ++module.operations;
      module.flops += node.flops;
    });
  }

  // A storage counts in the innermost module that encloses all that keep it; below that module it
  // is shared with others.
  addKept(slots, bytes, anyway) {
    if (slots.length === 0) return;
    const modules = new Set(slots.map((slot) =>
      this.find(this.graph.nodes[this.graph.saved[slot].node].module)));
    const home = [...modules].reduce(enclosing);
    home[anyway ? "others" : "activations"] += bytes;
    const below = new Set();
    for (let module of modules)
      for (; module !== home && !below.has(module); module = module.parent) below.add(module);
    if (!anyway) for (const module of below) module.shared += bytes;
  }

  addStorages(keepers) {
    keepers.ofStorage.forEach((slots, id) => {
      const storage = this.graph.storages[id];
      this.addKept(slots, storage.bytes, existsAnyway(storage));
    });
    keepers.ofPacking.forEach((slots, id) =>
      this.addKept(slots, this.graph.packings[id].bytes, false));
  }

  addHighest(line) {
    this.graph.steps.forEach((step, i) => {
      if (step.phase !== "forward" && step.phase !== "backward") return;
      for (let module = this.find(step.module); module; module = module.parent) {
        module.highest = Math.max(module.highest, line.highest[i]);
        module.transient = Math.max(module.transient, line.transient[i]);
      }
    });
  }
}

function enclosing(a, b) {
  while (a !== b) {
    if (a.depth >= b.depth) a = a.parent;
    else b = b.parent;
  }
  return a;
}

function addUp(module) {
  for (const child of module.children) {
    addUp(child);
    for (const sum of ["operations", "activations", "others", "flops"]) module[sum] += child[sum];
  }
  return module;
}

/**
 * The tree: sums are over everything below, but for `shared`, the bytes of activations that the
 * module keeps together with others outside it (they count further up), and `highest` and
 * `transient`, the most bytes live in any of its forward and backward steps, of all and of the
 * category transient alone. `line` is what replay() gave.
 */
export function moduleTree(graph, keepers, line) {
  const builder = new Builder(graph);
  builder.addNodes();
  builder.addStorages(keepers);
  if (line) builder.addHighest(line);
  return addUp(builder.root);
}

// ---- folding -----------------------------------------------------------------------------------

/** Whether two modules count alike. */
export const hasSameSums = (a, b) => a.operations === b.operations &&
  a.activations === b.activations && a.others === b.others && a.flops === b.flops;

const isSame = (a, b) => a.name === b.name && a.repeats === b.repeats && hasSameSums(a, b) &&
  hasSameChildren(a, b);

const hasSameChildren = (a, b) => a.children.length === b.children.length &&
  a.children.every((child, i) => isSame(child, b.children[i]));

const isNumber = (name) => /^[0-9]{1,15}$/.test(name);

function follows(first, next, distance) {
  return isNumber(first.name) && isNumber(next.name) &&
    Number(next.name) - Number(first.name) === distance && hasSameSums(first, next) &&
    hasSameChildren(first, next);
}

// One module for several that are alike; what stands below it is of all of them, too.
function merge(run) {
  const first = run[0];
  const most = (field) => Math.max(...run.map((module) => module[field]));
  const sum = (field) => sumOf(run, field);
  return { ...first, paths: run.flatMap((module) => module.paths),
    operations: sum("operations"), activations: sum("activations"), others: sum("others"),
    shared: sum("shared"), flops: sum("flops"),
    highest: most("highest"), transient: most("transient"),
    nodes: run.flatMap((module) => module.nodes),
    children: first.children.map((_, i) => merge(run.map((module) => module.children[i]))) };
}

/** What no child of the module counts, of one of its sums. */
export const ownSum = (module, sum) =>
  module.children.reduce((rest, child) => rest - child[sum], module[sum]);

// The module at another path, with all below it.
const moved = (module, from, to) => ({ ...module, path: to + module.path.slice(from.length),
  children: module.children.map((child) => moved(child, from, to)) });

/**
 * The tree with runs of alike neighbours "0", "1", ... folded into one "0-11" that repeats 12
 * times. A run whose path is in `unfolded` stays apart.
 */
export function folded(tree, unfolded = new Set()) {
  const all = tree.children.map((child) => folded(child, unfolded));
  const children = [];
  for (let begin = 0, end; begin < all.length; begin = end) {
    end = begin + 1;
    while (end < all.length && follows(all[begin], all[end], end - begin)) ++end;
    const run = all.slice(begin, end);
    const name = `${run[0].name}-${run[run.length - 1].name}`;
    const path = run[0].path.slice(0, run[0].path.length - run[0].name.length) + name;
    if (run.length === 1) children.push(run[0]);
    else if (unfolded.has(path)) children.push(...run.map((child) => ({ ...child, run: path })));
    else children.push({ ...moved(merge(run), run[0].path, path), name, repeats: run.length });
  }
  return { ...tree, children };
}

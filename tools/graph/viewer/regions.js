// Runs of operations of one module, which what-if questions change together.
import { pathsTo } from "./module_tree.js";
import { nearNames } from "./near_names.js";

/** Whether the whole name matches, * and ? being wildcards. */
export function matchesWhole(pattern, name) {
  let p = 0, n = 0, star = -1, starEnd = 0;
  while (n < name.length) {
    if (pattern[p] === "*") {
      star = p++;
      starEnd = n;
    } else if (p < pattern.length && (pattern[p] === "?" || pattern[p] === name[n])) {
      ++p;
      ++n;
    } else if (star < 0) {
      return false;
    } else {
      p = star + 1;
      n = ++starEnd;
    }
  }
  while (pattern[p] === "*") ++p;
  return p === pattern.length;
}

/** What the empty path of a module is called. */
export const rootName = "(root)";

// Whether the pattern stands for the empty path.
const isRoot = (pattern) => pattern === rootName || (pattern !== "" && matchesWhole(pattern, ""));

// The shortest part of the path, from its start to the end of a name, that matches; of the empty
// path, which is no part of others, itself; else null.
function matchingPart(pattern, path) {
  if (path === "") return isRoot(pattern) ? path : null;
  return pathsTo(path).find((part) => matchesWhole(pattern, part)) ?? null;
}

/**
 * The regions {path, first, last} of the modules that the pattern matches, in order. Throws an
 * Error when there is none.
 */
export function findRegions(graph, pattern) {
  const regions = [], known = new Map();
  graph.nodes.forEach((node, id) => {
    if (node.recomputed) return;
    if (!known.has(node.module)) known.set(node.module, matchingPart(pattern, node.module));
    const path = known.get(node.module);
    if (path === null) return;
    const last = regions[regions.length - 1];
    if (last && last.last === id - 1 && last.path === path) last.last = id;
    else regions.push({ path, first: id, last: id });
  });
  if (regions.length === 0) {
    const names = [...known.keys()].map((path) => path || rootName);
    throw new Error(`no module matches "${pattern}"${nearNames(pattern, names)}`);
  }
  return regions;
}

/** Which operations read each value and each storage: the last, and how many reads. */
export class Readers {
  constructor(graph) {
    this.lastOfValue = graph.values.map(() => -1);
    this.countOfValue = graph.values.map(() => 0);
    this.lastOfStorage = graph.storages.map(() => -1);
    graph.nodes.forEach((node, id) => {
      if (node.recomputed) return;
      for (const input of node.inputs) {
        this.lastOfValue[input] = id;
        ++this.countOfValue[input];
        this.lastOfStorage[graph.values[input].storage] = id;
      }
    });
  }
}

// Who keeps the most, and what would bring it down.
import { fitLabel, place } from "./format.js";
import { slotLabelInModule } from "./graph.js";
import { chainsIn } from "./whatif_fuse.js";
import { changed, figures } from "./whatif.js";

const isNumber = (name) => /^[0-9]+$/.test(name);

/** "layers.3.self_attn" as "layers.*.self_attn": modules that differ in numbers alone are one. */
export const starred = (path) =>
  path.split(".").map((name) => (isNumber(name) ? "*" : name)).join(".");

/** "layers.* add#2" of "layers.3 add#2": the same of each word, as label_without_numbers() has it. */
export const starredWords = (label) => label.split(" ").map(starred).join(" ");

/** "layers.*.self_attn softmax.y". */
export const starredLabel = (graph, slot) =>
  place(slotLabelInModule(graph, slot), starred(graph.nodes[slot.node].module));

/**
 * What keeps the activations, the most first: slots that differ in the numbers of their modules
 * alone stand together. A storage counts with the first slot that keeps it.
 */
export function savers(model) {
  const groups = new Map();
  for (const row of model.kept) {
    if (row.anyway) continue;
    const slot = model.graph.saved[row.slots[0]];
    const label = starredLabel(model.graph, slot);
    if (!groups.has(label)) groups.set(label, { label, bytes: 0, rows: [], why: slot.reason });
    const group = groups.get(label);
    group.bytes += row.bytes;
    group.rows.push(row);
  }
  return [...groups.values()].sort((a, b) => b.bytes - a.bytes);
}

/** What a group of savers() opens: its storage, or all of them together. */
export const keyOfSavers = ({ label, rows }) =>
  (rows.length === 1 ? rows[0].key : `savers:${label}`);

const verbs = {
  checkpoint: "checkpoint",
  fuse: "fused attention in",
  recompute: "recompute",
};

const mostColumns = 120;  // of a name in a sentence or a cell

/** A name that fits where it is one word of several. */
export const shortLabel = (name) => fitLabel(name, mostColumns);

/** "checkpoint layers.*". */
export const changeText = ({ kind, pattern }) =>
  `${verbs[kind]} ${kind === "fuse" && pattern === "*" ? "all modules" : shortLabel(pattern)}`;

/** What the flops of a graph with fused attention leave out. */
export const fusedNote = "fused attention makes q k^T again in its backward pass: not counted";

function modulePatterns(tree) {
  const found = new Map();
  const visit = (module) => {
    if (module.path && module.operations > 1 && module.activations > 0) {
      const pattern = starred(module.path);
      found.set(pattern, (found.get(pattern) ?? 0) + module.activations);
    }
    if (module.depth < 3) module.children.forEach(visit);
  };
  visit(tree);
  return [...found].sort((a, b) => b[1] - a[1]).map(([pattern]) => pattern);
}

function hasChain(model) {
  try {
    return chainsIn(model.graph, ["*"], model.keepers).length > 0;
  } catch {
    return false;
  }
}

/** Changes worth trying, not yet tried. */
export function candidates(model) {
  const list = modulePatterns(model.tree).slice(0, 6)
    .map((pattern) => ({ kind: "checkpoint", pattern }));
  if (hasChain(model)) list.push({ kind: "fuse", pattern: "*" });
  for (const { label } of savers(model).slice(0, 5))
    list.push({ kind: "recompute", pattern: label });
  return list;
}

/** The figures after a change, or null when it cannot be made or frees nothing. */
export function tried(model, change) {
  try {
    const now = figures(model.graph, model.line);
    const then = figures(changed(model.graph, [change]));
    const saves = then.saved_activation_bytes < now.saved_activation_bytes;
    return saves || then.peak_bytes < now.peak_bytes ? { change, now, then } : null;
  } catch {
    return null;
  }
}

// Those that do not lower the peak are alike in it: what they bring is fewer saved bytes.
const loweredPeak = ({ now, then }) => Math.min(then.peak_bytes ?? 0, now.peak_bytes ?? 0);

/** The best first: by the peak where it falls, then by saved bytes, then by operations. */
export const byWorth = (a, b) => loweredPeak(a) - loweredPeak(b) ||
  a.then.saved_activation_bytes - b.then.saved_activation_bytes || a.then.flops - b.then.flops;

/** Findings of the lint that are alike but for the numbers of their modules, as one. */
export function findings(model, all) {
  const groups = new Map();
  for (const finding of all) {
    const slot = model.graph.saved[finding.slot];
    const label = starredLabel(model.graph, slot), key = `${finding.rule} ${label}`;
    const group = groups.get(key) ?? { ...finding, label, count: 0, freed: 0 };
    groups.set(key, { ...group, count: group.count + 1, freed: group.freed + finding.freed });
  }
  return [...groups.values()].sort((a, b) => b.freed - a.freed);
}

// What-if questions, one after the other, and their figures.
import { withDonatable } from "./donatable.js";
import { allFlops, savedBytes } from "./graph.js";
import { replay } from "./replay.js";
import { checkpointed, checkpointNotes } from "./whatif_checkpoint.js";
import { fused } from "./whatif_fuse.js";
import { recomputed } from "./whatif_recompute.js";

const kinds = { checkpoint: checkpointed, fuse: fused, recompute: recomputed };

/** A change is {kind, pattern}: "checkpoint", "fuse" or "recompute", as `tapehead graph whatif`. */
export const isChange = ({ kind, pattern }) => Object.hasOwn(kinds, kind) && pattern !== "";

// A checkpoint hides what is in it from the other questions and from other checkpoints, so all of
// them are one question, which is asked last.
function inOrder(changes) {
  const isLast = ({ kind }) => kind === "checkpoint";
  const patterns = changes.filter(isLast).map(({ pattern }) => pattern);
  return { first: changes.filter((change) => !isLast(change)), patterns };
}

/**
 * {graph, notes}: the graph after these changes, checkpoints last, and a list of sentences on what
 * they leave as it is. Throws an Error that says why not.
 */
export function answered(was, changes) {
  const { first, patterns } = inOrder(changes);
  const graph = first.reduce((result, { kind, pattern }) =>
    withDonatable(kinds[kind](result, pattern)), was);
  if (patterns.length === 0) return { graph, notes: [] };
  return { graph: withDonatable(checkpointed(graph, patterns)),
    notes: checkpointNotes(graph, patterns) };
}

/** The graph alone. */
export const changed = (graph, changes) => answered(graph, changes).graph;

/** The figures that `tapehead graph whatif --json` compares; no peak without events. */
export function figures(graph, line = replay(graph)) {
  const { activations, all } = savedBytes(graph);
  return { saved_activation_bytes: activations, saved_bytes: all, peak_bytes: line?.peak,
    flops: allFlops(graph) };
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const quotedName = (name) => (/^[\w./][\w./-]*$/.test(name) ? name : quoted(name));

/** The commands that answer the same questions of a file, in the order in which they are asked. */
export function commands(changes, file) {
  const { first, patterns } = inOrder(changes);
  const questions = first.map(({ kind, pattern }) => `--${kind} ${quoted(pattern)}`);
  if (patterns.length > 0)
    questions.push(patterns.map((pattern) => `--checkpoint ${quoted(pattern)}`).join(" "));
  return questions.map((question, i) => {
    const from = i === 0 ? quotedName(file) : `then-${i}.json`;
    const to = i + 1 < questions.length ? ` --graph then-${i + 1}.json` : "";
    return `tapehead graph whatif ${from} ${question}${to}`;
  });
}

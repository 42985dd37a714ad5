// What-if questions, one after the other, and their figures.
import { withDonatable } from "./donatable.js";
import { allFlops, savedBytes } from "./graph.js";
import { replay } from "./replay.js";
import { checkpointed } from "./whatif_checkpoint.js";
import { fused } from "./whatif_fuse.js";
import { recomputed } from "./whatif_recompute.js";

const kinds = { checkpoint: checkpointed, fuse: fused, recompute: recomputed };

/** A change is {kind, pattern}: "checkpoint", "fuse" or "recompute", as `tapehead graph whatif`. */
export const isChange = ({ kind, pattern }) => Object.hasOwn(kinds, kind) && pattern !== "";

// A checkpoint hides what is in it from the other questions, so it is asked for last.
const inOrder = (changes) => [...changes.filter(({ kind }) => kind !== "checkpoint"),
  ...changes.filter(({ kind }) => kind === "checkpoint")];

/** The graph after these changes, checkpoints last. Throws an Error that says why not. */
export const changed = (graph, changes) =>
  inOrder(changes).reduce((result, { kind, pattern }) => withDonatable(kinds[kind](result, pattern)), graph);

/** The figures that `tapehead graph whatif --json` compares; no peak without events. */
export function figures(graph, line = replay(graph)) {
  const { activations, all } = savedBytes(graph);
  return { saved_activation_bytes: activations, saved_bytes: all, peak_bytes: line?.peak,
    flops: allFlops(graph) };
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** The commands that answer the same questions, in the order in which they are asked. */
export function commands(changes) {
  return inOrder(changes).map(({ kind, pattern }, i) => {
    const from = i === 0 ? "graph.json" : `then-${i}.json`;
    const to = i + 1 < changes.length ? ` --graph then-${i + 1}.json` : "";
    return `tapehead graph whatif ${from} --${kind} ${quoted(pattern)}${to}`;
  });
}

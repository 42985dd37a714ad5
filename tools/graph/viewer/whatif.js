// What-if questions, one after the other, and their figures.
import { withDonatable } from "./donatable.js";
import { allFlops, savedBytes } from "./graph.js";
import { replay } from "./replay.js";
import { checkpointed, checkpointNotes } from "./whatif_checkpoint.js";
import { fused, fuseNotes } from "./whatif_fuse.js";
import { recomputeNotes, recomputed } from "./whatif_recompute.js";

// Each answers a question of several patterns.
const kinds = {
  checkpoint: { answer: checkpointed, notes: checkpointNotes },
  fuse: { answer: fused, notes: fuseNotes },
  recompute: { answer: recomputed, notes: recomputeNotes },
};

/** A change is {kind, pattern}: "checkpoint", "fuse" or "recompute", as `tapehead graph whatif`. */
export const isChange = ({ kind }) => Object.hasOwn(kinds, kind);

/** Whether this change is one of them. */
export const includesChange = (changes, { kind, pattern }) =>
  changes.some((one) => one.kind === kind && one.pattern === pattern);

// The questions {kind, patterns}, in the order in which they are asked: all changes of one kind are
// one question, as on the command line. A checkpoint hides what is in it from the other questions,
// so checkpoints come last.
function inOrder(changes) {
  const questions = [];
  for (const { kind, pattern } of changes) {
    const known = questions.find((one) => one.kind === kind);
    if (known) known.patterns.push(pattern);
    else questions.push({ kind, patterns: [pattern] });
  }
  const isLast = ({ kind }) => kind === "checkpoint";
  return [...questions.filter((one) => !isLast(one)), ...questions.filter(isLast)];
}

/**
 * {graph, notes}: the graph after these changes, checkpoints last, and a list of sentences on what
 * they took and left. Throws an Error that says why not.
 */
export function answered(was, changes) {
  if (changes.some(({ pattern }) => pattern === "")) throw new Error("the pattern is empty");
  return inOrder(changes).reduce(({ graph, notes }, { kind, patterns }) => ({
    graph: withDonatable(kinds[kind].answer(graph, patterns)),
    notes: [...notes, ...kinds[kind].notes(graph, patterns)] }), { graph: was, notes: [] });
}

/**
 * {graph, notes, made, refused}: the same of as many of the changes as can be made together, the
 * earlier first, and the others as {change, why}.
 */
export function answeredInPart(was, changes) {
  const refused = [];
  let made = [], answer = { graph: was, notes: [] };
  try {
    return { ...answered(was, changes), made: changes, refused };
  } catch {
    // One by one, to see which of them it is.
  }
  for (const change of changes)
    try {
      answer = answered(was, [...made, change]);
      made = [...made, change];
    } catch (error) {
      refused.push({ change, why: error.message });
    }
  return { ...answer, made, refused };
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
  const questions = inOrder(changes).map(({ kind, patterns }) =>
    patterns.map((pattern) => `--${kind} ${quoted(pattern)}`).join(" "));
  return questions.map((question, i) => {
    const from = i === 0 ? quotedName(file) : `then-${i}.json`;
    const to = i + 1 < questions.length ? ` --graph then-${i + 1}.json` : "";
    return `tapehead graph whatif ${from} ${question}${to}`;
  });
}

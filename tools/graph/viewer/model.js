// A graph with all that the panels ask of it, computed once.
import { Keepers, allFlops, categories, existsAnyway, neededBytes, operationLabel, reasons,
  savedBytes, slotLabel, slotsOfNodes } from "./graph.js";
import { describe, formatCount, words } from "./format.js";
import { makerLabel, makerOf, nameOf } from "./maker.js";
import { lifetimes, replay } from "./replay.js";
import { moduleTree } from "./module_tree.js";

const hasTwoEqualDims = (shape) =>
  shape.some((dim, i) => dim > 1 && shape.indexOf(dim, i + 1) >= 0);

/** "3, backward of softmax in layers.0". */
export function stepText(graph, index) {
  if (index < 0) return "before the first step";
  const { phase, operation, module } = graph.steps[index];
  const what = operation ? ` of ${operation}` : "";
  return `step ${formatCount(index)}, ${phase}${what}${module ? ` in ${module}` : ""}`;
}

// One row for each storage or packing that slots keep.
function keptRow(model, key, bytes, slots, packing) {
  const { graph } = model;
  const first = graph.saved[slots[0]], value = graph.values[first.value];
  const storage = graph.storages[value.storage];
  const name = nameOf(graph, first.value);
  const maker = makerOf(graph, first.value), made = makerLabel(graph, first.value);
  const reasonsOf = [...new Set(slots.map((slot) => graph.saved[slot].reason))];
  const needed = Math.max(...slots.map((slot) =>
    neededBytes(graph.values[graph.saved[slot].value])));
  const life = packing < 0 ? model.lives[value.storage] : null;
  return { key, bytes, slots, value, packing, needed,
    storage: packing < 0 ? value.storage : -1,
    anyway: packing < 0 && existsAnyway(storage),
    category: packing < 0 ? storage.category : "saved",
    name, what: name || made || slotLabel(graph, first),
    made: made || "not on this tape",
    madeBy: maker ? { operation: `by ${operationLabel(graph, maker.node)}`, from: maker.module }
      : { operation: "a constant", from: "not on this tape" },
    savers: slots.slice(0, 8).map((slot) => slotLabel(graph, graph.saved[slot])),
    modules: slots.map((slot) => graph.nodes[graph.saved[slot].node].module),
    why: reasonsOf.join("; "),
    shared: slots.length > 1,
    twoEqual: slots.some((slot) =>
      hasTwoEqualDims(graph.values[graph.saved[slot].value].shape)),
    pins: packing < 0 && needed < bytes,
    freed: life ? life.freed : -1,
    text: "" };
}

function keptRows(model) {
  const { graph, keepers } = model;
  const rows = [];
  keepers.ofStorage.forEach((slots, id) => {
    if (slots.length > 0)
      rows.push(keptRow(model, `storage:${id}`, graph.storages[id].bytes, slots, -1));
  });
  keepers.ofPacking.forEach((slots, id) => {
    if (slots.length > 0)
      rows.push(keptRow(model, `packing:${id}`, graph.packings[id].bytes, slots, id));
  });
  for (const row of rows)
    row.text = [row.what, row.made, ...row.savers, row.why, describe(row.value),
      words(row.category)].join("\n");
  return rows;
}

// The figures of `tapehead graph summary --json`.
function summary(model) {
  const { graph, line } = model;
  const largest = Object.fromEntries(categories.map((name) => [name, 0]));
  if (line)
    for (const after of line.after)
      categories.forEach((name, i) => { largest[name] = Math.max(largest[name], after[i]); });
  else for (const storage of graph.storages) largest[storage.category] += storage.bytes;
  const { activations, all } = savedBytes(graph, model.keepers);
  return { saved_activation_bytes: activations, saved_bytes: all,
    parameter_bytes: largest.parameter, gradient_bytes: largest.gradient,
    optimizer_state_bytes: largest.optimizer_state, operations: model.tree.operations,
    donatable_inputs: graph.nodes.reduce((sum, node) => sum + node.donatable.length, 0),
    flops: model.tree.flops, peak_bytes: line?.peak, peak_step: line?.peakStep };
}

// The modules of a tree by their paths.
function modulesByPath(tree) {
  const found = new Map();
  const visit = (module) => {
    found.set(module.path, module);
    module.children.forEach(visit);
  };
  visit(tree);
  return found;
}

/** The model of a graph. Its rows must not change afterwards. */
export function makeModel(graph) {
  const model = { graph, keepers: new Keepers(graph), line: replay(graph),
    lives: lifetimes(graph), why: reasons(graph) };
  model.tree = moduleTree(graph, model.keepers, model.line);
  model.byPath = modulesByPath(model.tree);
  model.backwardNodes = new Set(graph.steps.filter(({ phase }) => phase === "backward")
    .map(({ node }) => node));
  model.slotsOfNode = slotsOfNodes(graph);
  model.kept = keptRows(model);
  model.keptByKey = new Map(model.kept.map((row) => [row.key, row]));
  model.summary = summary(model);
  model.allFlops = allFlops(graph);
  return model;
}

/** Whether a figure is so large that the page's arithmetic has rounded it. */
export const isRounded = (model) =>
  Object.values(model.summary).some((figure) => figure > Number.MAX_SAFE_INTEGER);

// Which keys the queries of an attention may see: from masks that were recorded beside the graph,
// or from the rule that an operation has among its attributes.
import { attribute } from "./graph.js";

/** {queries, keys, hides(i, j), source} of rows of text, 'x' for a key that is hidden. */
function recorded(rows, source) {
  return { queries: rows.length, keys: rows[0]?.length ?? 0, source,
    hides: (i, j) => rows[i][j] === "x" };
}

/** The masks that were recorded of a map: one that all heads share, or one for each. */
export const masksOfMap = ({ hidden = [] }) => hidden.map((rows, k) => recorded(rows,
  hidden.length > 1 ? `Head ${k}, as recorded` : "As recorded, the same for all heads"));

const lastDims = (shape) => shape.slice(-2);

// The triangle of a fused attention, which holds no tensor of it.
function triangle(graph, node) {
  const offset = attribute(node, "causal_offset");
  if (offset === undefined || attribute(node, "hidden")) return null;
  const [queries] = lastDims(graph.values[node.inputs[0]].shape);
  const [keys] = lastDims(graph.values[node.inputs[1]].shape);
  return { queries, keys, hides: (i, j) => j > i + offset,
    source: `Causal: query i sees keys 0 to i${offset > 0 ? ` + ${offset}` : ""}` };
}

const isMasked = (graph, node) => node.operation === "masked_fill"
  ? attribute(node, "value") === "-inf"
  : node.operation === "fused_attention" &&
    (attribute(node, "causal_offset") !== undefined || attribute(node, "hidden") === true);

/**
 * The masks of a node: a list, empty where the graph has a mask but not what it hides; null when
 * the node masks nothing. `maps`: what was recorded, or undefined.
 */
export function masksOfNode(graph, id, maps = []) {
  const node = graph.nodes[id];
  if (!isMasked(graph, node)) return null;
  const known = triangle(graph, node);
  if (known) return [known];
  return maps.filter(({ module }) => module === node.module).flatMap(masksOfMap);
}

/** Queries that see no key. */
export function blindQueries({ queries, keys, hides }) {
  const found = [];
  for (let i = 0; i < queries; ++i) {
    let sees = false;
    for (let j = 0; j < keys && !sees; ++j) sees = !hides(i, j);
    if (!sees) found.push(i);
  }
  return found;
}

/** How many pairs of a query and a key are hidden. */
export function hiddenPairs({ queries, keys, hides }) {
  let count = 0;
  for (let i = 0; i < queries; ++i) for (let j = 0; j < keys; ++j) if (hides(i, j)) ++count;
  return count;
}

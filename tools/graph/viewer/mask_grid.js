// A mask as a grid: a row is a query, a column a key, dark where the key is hidden from the query.
import { colour } from "./colours.js";
import { canvasContext, h } from "./dom.js";
import { formatCount, formatShare } from "./format.js";
import { partOf } from "./lists.js";
import { blindQueries, hiddenPairs, masksOfNode } from "./mask.js";

const side = 192;     // pixels at most; of larger grids a field stands for several cells
const wide = 6;       // pixels from which on cells have lines between them
const mostBlind = 12;

const fieldsOf = (count) => Math.min(count, side);

// The share of hidden pairs in field (i, j) of rows x columns.
function hiddenShare({ queries, keys, hides }, rows, columns, i, j) {
  const [top, bottom] = partOf(i, rows, queries), [left, right] = partOf(j, columns, keys);
  let hidden = 0;
  for (let q = top; q < bottom; ++q) for (let k = left; k < right; ++k) if (hides(q, k)) ++hidden;
  return hidden / ((bottom - top) * (right - left));
}

function paint(canvas, mask) {
  const rows = fieldsOf(mask.queries), columns = fieldsOf(mask.keys);
  const cell = Math.max(1, Math.min(14, Math.floor(side / Math.max(rows, columns, 1))));
  const context = canvasContext(canvas, columns * cell, rows * cell);
  const line = cell >= wide ? 1 : 0;
  context.fillStyle = colour("line");
  context.fillRect(0, 0, columns * cell, rows * cell);
  for (let i = 0; i < rows; ++i)
    for (let j = 0; j < columns; ++j) {
      const share = hiddenShare(mask, rows, columns, i, j);
      context.fillStyle = colour(share === 0 ? "panel" : share === 1 ? "ink" : "quiet");
      context.fillRect(j * cell, i * cell, cell - line, cell - line);
    }
}

const entry = (name, text) => h("span", { class: "entry" },
  h("span", { class: `mask-swatch ${name}` }), text);

function blindText(mask) {
  const blind = blindQueries(mask);
  if (blind.length === 0) return "Every query sees some key.";
  const more = blind.length > mostBlind ? ` and ${formatCount(blind.length - mostBlind)} more` : "";
  return `Queries that see no key, so that their output is 0 (${formatCount(blind.length)}): ` +
    `${blind.slice(0, mostBlind).join(", ")}${more}.`;
}

/** A mask with what it says: its source, how much it hides, the queries that see nothing. */
export function maskGrid(mask) {
  const { queries, keys, source } = mask, hidden = hiddenPairs(mask), all = queries * keys;
  const canvas = h("canvas", { class: "mask", role: "img", "aria-label": `${formatCount(hidden)} ` +
    `of ${formatCount(all)} pairs hidden` });
  paint(canvas, mask);
  return h("div", { class: "mask-grid" }, canvas, h("p", { class: "legend" }, entry("seen", "seen"),
    entry("hidden", "hidden"), Math.max(queries, keys) > side && entry("partly", "partly")),
  h("p", {}, `${source}. ${formatCount(queries)} × ${formatCount(keys)} pairs (a row is a query, ` +
    `a column a key), ${formatCount(hidden)} hidden (${formatShare(hidden, all)}).`),
  h("p", {}, blindText(mask)));
}

/** The masks of a node with a title; nothing where it masks nothing. */
export function maskOfNode(app, id) {
  const masks = masksOfNode(app.model.graph, id, app.attention?.maps);
  if (masks === null) return [];
  return [h("h4", {}, "The mask"), masks.length > 0 ? masks.map(maskGrid)
    : h("p", {}, "The graph holds the size of this mask and not what it hides. ",
      h("code", {}, "nn::AttentionRecorder"), " and ", h("code", {}, "tapehead maps"),
      " record it; ", h("code", {}, "tapehead graph html --attention"), " shows it here.")];
}

// Attention weights that were recorded beside the graph: a small map for each head, and the mask.
import { h } from "./dom.js";
import { straight } from "./format.js";
import { partOf } from "./lists.js";
import { masksOfMap } from "./mask.js";
import { maskGrid } from "./mask_grid.js";
import { isWithin } from "./module_tree.js";

const most = 128;  // pixels a side: larger maps show the largest weight of each field

const ramps = {
  light: [[255, 255, 255], [188, 214, 236], [94, 153, 208], [32, 88, 160], [10, 30, 84]],
  dark: [[29, 32, 36], [38, 70, 110], [40, 125, 160], [110, 190, 150], [250, 240, 150]],
};
const noNumber = [220, 0, 160];

const isDark = () => matchMedia("(prefers-color-scheme: dark)").matches;

// The root spreads small weights.
function rgb(weight, ramp) {
  if (weight === null) return noNumber;
  const at = Math.sqrt(Math.min(Math.max(weight, 0), 1)) * (ramp.length - 1);
  const low = Math.min(Math.floor(at), ramp.length - 2);
  return ramp[low].map((c, i) => Math.round(c + (ramp[low + 1][i] - c) * (at - low)));
}

function largestIn(head, rows, columns) {
  let largest = 0;
  for (let i = rows[0]; i < rows[1]; ++i)
    for (let j = columns[0]; j < columns[1]; ++j) {
      if (head[i][j] === null) return null;
      largest = Math.max(largest, head[i][j]);
    }
  return largest;
}

function paint(canvas, head) {
  const rows = head.length, columns = head[0]?.length ?? 0;
  canvas.height = Math.max(1, Math.min(rows, most));
  canvas.width = Math.max(1, Math.min(columns, most));
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const ramp = isDark() ? ramps.dark : ramps.light;
  for (let i = 0; i < canvas.height && rows > 0; ++i)
    for (let j = 0; j < canvas.width && columns > 0; ++j) {
      const weight = largestIn(head, partOf(i, canvas.height, rows),
        partOf(j, canvas.width, columns));
      image.data.set([...rgb(weight, ramp), 255], 4 * (i * canvas.width + j));
    }
  context.putImageData(image, 0, 0);
}

// The colours from weight 0 to weight 1.
function scale() {
  const canvas = h("canvas", { class: "scale", width: 64, height: 1, "aria-hidden": "true" });
  const context = canvas.getContext("2d"), image = context.createImageData(64, 1);
  const ramp = isDark() ? ramps.dark : ramps.light;
  for (let i = 0; i < 64; ++i) image.data.set([...rgb(i / 63, ramp), 255], 4 * i);
  context.putImageData(image, 0, 0);
  return canvas;
}

const hasNoNumber = (heads) => heads.some((head) => head.some((row) => row.includes(null)));

function mapsOfModule({ module, heads, ...map }) {
  return h("div", { class: "maps" },
    h("h4", {}, `Attention weights of ${straight(module)}`),
    h("p", { class: "legend" }, "a row is a query, a column a key; ",
      h("span", { class: "scale-line" }, "weights 0 ", scale(), " 1"),
      hasNoNumber(heads) && ", pink: not a number"),
    h("div", { class: "heads" }, heads.map((head, k) => {
      const canvas = h("canvas", { role: "img", "aria-label": `head ${k} of ${module}` });
      paint(canvas, head);
      return h("figure", {}, canvas, h("figcaption", {}, `head ${k}`));
    })), masksOfMap(map).map((mask) => [h("h4", {}, "Its mask"), maskGrid(mask)]));
}

/** Maps of the module at `path`, {own}, and of those below it, {below}: lists. */
export function heatMaps(attention, path) {
  const maps = attention?.maps ?? [];
  return { own: maps.filter(({ module }) => module === path).map(mapsOfModule),
    below: maps.filter(({ module }) => module !== path &&
      (path === "" || isWithin(module, path))).map(mapsOfModule) };
}

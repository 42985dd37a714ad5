// Attention weights that were recorded beside the graph: a small map for each head.
import { h } from "./dom.js";
import { straight } from "./format.js";

const most = 128;  // pixels a side: larger maps show the largest weight of each field

const ramps = {
  light: [[255, 255, 255], [188, 214, 236], [94, 153, 208], [32, 88, 160], [10, 30, 84]],
  dark: [[29, 32, 36], [38, 70, 110], [40, 125, 160], [110, 190, 150], [250, 240, 150]],
};

// The root spreads small weights.
function rgb(weight, ramp) {
  if (weight === null) return [220, 0, 160];  // not a number
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
  const ramp = matchMedia("(prefers-color-scheme: dark)").matches ? ramps.dark : ramps.light;
  const part = (k, count, all) => [Math.floor(k * all / count), Math.floor((k + 1) * all / count)];
  for (let i = 0; i < canvas.height && rows > 0; ++i)
    for (let j = 0; j < canvas.width && columns > 0; ++j) {
      const weight = largestIn(head, part(i, canvas.height, rows), part(j, canvas.width, columns));
      image.data.set([...rgb(weight, ramp), 255], 4 * (i * canvas.width + j));
    }
  context.putImageData(image, 0, 0);
}

/** Maps of the modules at `path` and below; an empty list where none was recorded. */
export function heatMaps(attention, path) {
  const maps = (attention?.maps ?? []).filter(({ module }) =>
    path === "" || module === path || module.startsWith(`${path}.`));
  return maps.map(({ module, heads }) => h("div", { class: "maps" },
    h("h4", {}, `Attention weights of ${straight(module)}: a row is a query, a column a key`),
    h("div", { class: "heads" }, heads.map((head, k) => {
      const canvas = h("canvas", { role: "img", "aria-label": `head ${k} of ${module}` });
      paint(canvas, head);
      return h("figure", {}, canvas, h("figcaption", {}, `head ${k}`));
    }))));
}

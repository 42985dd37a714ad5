// What runs below the timeline: the phases, the modules, and the life of what is selected.
import { colour } from "./colours.js";
import { pathsTo } from "./module_tree.js";

/** Runs {from, to, name} of steps of one phase; to is the step behind the last. */
export function phases(graph) { return runs(graph.steps.map((step) => step.phase)); }

/**
 * Runs of steps in one module, of the first depth at which none takes a quarter of the steps. An
 * update's module is a parameter: it has none.
 */
export function moduleBands(graph) {
  let bands = [];
  for (let depth = 1; depth <= 4; ++depth) {
    bands = runs(graph.steps.map(({ phase, module }) => (phase === "update" ? ""
      : pathsTo(module).slice(0, depth).at(-1) ?? "")));
    const widest = Math.max(...bands.map(({ from, to, name }) => (name === "" ? 0 : to - from)));
    if (widest < graph.steps.length / 4) break;
  }
  return bands;
}

function runs(names) {
  const found = [];
  names.forEach((name, i) => {
    const last = found[found.length - 1];
    if (last && last.name === name) last.to = i + 1;
    else found.push({ from: i, to: i + 1, name });
  });
  return found;
}

function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  const end = text.split(".").pop();
  return context.measureText(end).width <= width ? end : "";
}

/** Draws runs as a row of labelled boxes between y and y + height. */
export function drawBands(context, bands, x, y, height, quiet) {
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  const [left, right] = [x.range[0], x.range[1]];
  bands.forEach((band, i) => {
    const from = Math.max(left, x(band.from)), to = Math.min(right, x(band.to));
    if (to <= from || band.name === "") return;
    context.fillStyle = colour(i % 2 === 0 || !quiet ? "band" : "band-2");
    context.fillRect(from, y, Math.max(to - from - (to - from > 3 ? 1 : 0), 0.5), height);
    const text = fitted(context, band.name, to - from - 6);
    context.fillStyle = colour("ink");
    if (text) context.fillText(text, (from + to) / 2, y + height / 2 + 0.5);
  });
}

/**
 * Draws the life of a storage: a bar from its birth to its death, a mark where it was last needed,
 * and hatching over what it lived longer.
 */
export function drawLife(context, life, steps, x, y, height) {
  const born = life.born < 0 ? 0 : life.born, freed = life.freed < 0 ? steps : life.freed + 1;
  context.fillStyle = colour("accent");
  context.fillRect(x(born), y, Math.max(x(freed) - x(born), 2), height);
  if (life.lastNeeded < 0) return;
  const needed = x(life.lastNeeded + 1);
  context.save();
  context.beginPath();
  context.rect(needed, y, Math.max(0, x(freed) - needed), height);
  context.clip();
  context.fillStyle = colour("panel");
  context.fillRect(needed, y, x(freed) - needed, height);
  context.strokeStyle = colour("accent");
  context.beginPath();
  for (let at = needed - height; at < x(freed); at += 5) {
    context.moveTo(at, y + height);
    context.lineTo(at + height, y);
  }
  context.stroke();
  context.restore();
}

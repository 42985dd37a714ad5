// A colour and a hatch for each category, so that no one need tell colours apart.
import { h } from "./dom.js";

const hatches = {
  parameter: "falling", optimizer_state: "dots", input: "none", constant: "level",
  saved: "none", gradient: "rising", transient: "upright",
};

const size = 8;

const strokes = {
  falling: (c) => line(c, [0, 0, 8, 8]),
  rising: (c) => line(c, [0, 8, 8, 0]),
  level: (c) => line(c, [0, 4, 8, 4]),
  upright: (c) => line(c, [4, 0, 4, 8]),
  dots: (c) => c.fillRect(2, 2, 2.5, 2.5),
};

function line(context, [x1, y1, x2, y2]) {
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x2, y2);
  context.stroke();
}

/** A colour of the style sheet: "saved" for --saved. */
export const colour = (name) => getComputedStyle(document.documentElement)
  .getPropertyValue(`--${name.replaceAll("_", "-")}`).trim();

function tile(base, hatch) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = size;
  const context = canvas.getContext("2d");
  context.fillStyle = base;
  context.fillRect(0, 0, size, size);
  context.strokeStyle = context.fillStyle = colour("hatch");
  strokes[hatch]?.(context);
  return canvas;
}

/** What fills the areas of a category in a drawing. */
export const categoryFill = (context, category) =>
  context.createPattern(tile(colour(category), hatches[category]), "repeat");

/** A small field of it for a legend. */
export function swatch(category) {
  const canvas = h("canvas", { class: "swatch", width: 18, height: 12, "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  context.fillStyle = categoryFill(context, category);
  context.fillRect(0, 0, 18, 12);
  return canvas;
}

// Elements. Text always enters the page as text: nothing here, or elsewhere, parses markup.
import { formatShare } from "./format.js";

function fill(element, { on = {}, ...attributes }, children) {
  for (const [name, value] of Object.entries(attributes))
    if (value !== undefined && value !== null && value !== false)
      element.setAttribute(name, value === true ? "" : value);
  for (const [event, listener] of Object.entries(on)) element.addEventListener(event, listener);
  element.append(...children.flat(Infinity).filter((child) => child !== null &&
    child !== undefined && child !== false));
  return element;
}

/** An element with attributes, {on: {event: listener}}, and children: nodes and strings. */
export const h = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);

/** The same for drawings. */
export const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

/** What looks like a link and selects something in the page. */
export const link = (text, onClick, attributes = {}) =>
  h("button", { type: "button", class: "link", ...attributes, on: { click: onClick } }, text);

/** A listener that acts on Enter and on space. */
export const onEnter = (act) => (event) => {
  if (event.key !== "Enter" && event.key !== " ") return;
  event.preventDefault();
  event.stopPropagation();
  act();
};

/** A panel with a title, a sentence that says how to read it, and a body. */
export function panel(id, title, about, ...body) {
  return h("section", { id, class: "panel", "aria-labelledby": `${id}-title` },
    h("h2", { id: `${id}-title` }, title), about && h("p", { class: "about" }, about), ...body);
}

/** A name and what it stands for, in a list of such: facts(). */
export const fact = (name, ...content) => [h("dt", {}, name), h("dd", {}, ...content)];

export const facts = (...list) => h("dl", { class: "facts" }, list);

/** A bar as long as the part is of the whole. */
export function bar(part, whole) {
  const element = h("span", { class: "bar", "aria-hidden": "true" }, h("span"));
  element.firstChild.style.width = `${whole > 0 ? 100 * part / whole : 0}%`;
  return element;
}

/** A bar with its share in per cent behind it. */
export const shareBar = (part, whole) =>
  [bar(part, whole), h("span", {}, formatShare(part, whole))];

/** The class of a figure that is smaller or larger than it was. */
export const classOfChange = (change) => (change < 0 ? "less" : change > 0 ? "more" : "");

/** Whether a key is part of a shortcut, and none of the page's. */
export const hasModifier = ({ ctrlKey, metaKey, altKey }) => ctrlKey || metaKey || altKey;

/** A canvas with as many pixels as the screen has there; its context draws in CSS pixels. */
export function canvasContext(canvas, width, height) {
  const scale = globalThis.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  return context;
}

/** Puts text on the clipboard, where the browser allows it; else it can be copied from a box. */
export async function copyText(text, button) {
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "copied";
  } catch {
    const box = h("textarea", { class: "copy-box", "aria-label": "Text to copy" });
    box.value = text;
    button.after(box);
    box.select();
    box.addEventListener("blur", () => box.remove());
  }
  setTimeout(() => { button.textContent = label; }, 1500);
}

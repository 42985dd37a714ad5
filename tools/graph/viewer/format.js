// Figures and names, written as every report of Tapehead writes them.

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/** "1,234,567". */
export const formatCount = (count) => grouped.format(count);

/** The same, or "unknown". */
export const formatKnown = (count) => (count === undefined ? "unknown" : formatCount(count));

/** "+1,234", "-5", "0". */
export const formatChange = (count) => (count > 0 ? "+" : "") + formatCount(count);

/** "1.18 MiB", or "12 B" below 1024. */
export function formatUnits(bytes) {
  let scaled = Math.abs(bytes);
  if (scaled < 1024) return `${formatCount(bytes)} B`;
  let unit = -1;
  do {
    scaled /= 1024;
    ++unit;
  } while (scaled >= 1023.995 && unit + 1 < units.length);
  return `${bytes < 0 ? "-" : ""}${scaled.toFixed(2)} ${units[unit]}`;
}

/** "1,234,567 (1.18 MiB)"; without brackets below 1024. */
export function formatBytes(bytes) {
  if (Math.abs(bytes) < 1024) return formatCount(bytes);
  return `${formatCount(bytes)} (${formatUnits(bytes)})`;
}

/** "1,234,567 bytes (1.18 MiB)"; without brackets below 1024. */
export function bytesText(bytes) {
  const text = `${formatCount(bytes)} byte${bytes === 1 ? "" : "s"}`;
  return Math.abs(bytes) < 1024 ? text : `${text} (${formatUnits(bytes)})`;
}

/** "12.5 %" of a total; "-" of nothing. */
export const formatShare = (part, total) =>
  total === 0 ? "-" : `${(100 * part / total).toFixed(1)} %`;

/** "1 slot", "2 slots". */
export const plural = (count, what) => `${formatCount(count)} ${what}${count === 1 ? "" : "s"}`;

/** " × 12" behind what stands for so many; "" behind what stands for one. */
export const timesText = (count) => (count > 1 ? ` × ${formatCount(count)}` : "");

/** "layers.0 softmax"; the operation alone outside any module. */
export const place = (operation, module) => (module ? `${module} ${operation}` : operation);

/** "(2, 3)". */
export const shapeText = (shape) => `(${shape.join(", ")})`;

/** "f32 (2, 3)". */
export const describe = (value) => `${value.dtype} ${shapeText(value.shape)}`;

/**
 * A name with what turns the direction of the text behind it shown as its code, so that no name can
 * turn a figure round.
 */
export const straight = (text) => text.replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
  (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** The text, cut to so many characters. */
export const clip = (text, characters) =>
  (text.length <= characters ? text : `${text.slice(0, characters - 1)}…`);

/** The same, from its end. */
export const clipStart = (text, characters) =>
  (text.length <= characters ? text : `…${text.slice(text.length - characters + 1)}`);

/**
 * The text with "?" for control characters, as errors of the library name things; what is longer
 * loses its middle to "...".
 */
export function fitLabel(text, characters) {
  const all = [...text.replace(/[\u0000-\u001f\u007f-\u009f]/g, "?")];
  if (all.length <= characters) return all.join("");
  const head = Math.ceil((characters - 3) / 2), tail = characters - 3 - head;
  return `${all.slice(0, head).join("")}...${all.slice(-tail).join("")}`;
}

/** "optimizer state" of the category "optimizer_state". */
export const words = (name) => name.replaceAll("_", " ");

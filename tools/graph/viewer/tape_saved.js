// What is saved, drawn once each between the passes: in the row of what made it, with dashed lines
// to the rules that read it.
import { partClass } from "./tape_colours.js";
import { onEnter, svg } from "./dom.js";
import { clipStart, formatBytes, formatCount, plural, shapeText } from "./format.js";
import { append, sumOf } from "./lists.js";

const gap = 6;
const inRow = 4;     // at most; the others are counted
const room = 56;     // at the right, for the lines
const letter = 6.9;  // pixels of one

const padding = 16;     // of a pill, both sides together
const widthOfMore = 7 * letter + padding;  // of "12 more"

const nameOf = ({ value }) => value.name || shapeText(value.shape);
const short = (text) => text.replaceAll(", ", ",");

// Several pieces of memory as one: who reads any of them, and their bytes.
function merged(entries) {
  const slots = new Map();
  for (const entry of entries)
    for (const [row, names] of entry.slots) for (const name of names) append(slots, row, name);
  return { slots, list: entries.map(({ kept }) => kept), text: "", select: "" };
}

/** By row of the layout, the slots that its rule reads, but for those made in folded modules. */
export function slotsByRow({ rows, storages }) {
  const names = new Map();
  for (const { slots, home } of storages)
    if (rows[home].kind !== "module")
      for (const [row, list] of slots) for (const name of list) append(names, row, name);
  return new Map([...names].map(([row, list]) => [row, [...new Set(list)].join(", ")]));
}

class Saved {
  constructor(drawing) {
    Object.assign(this, { drawing, app: drawing.app, from: drawing.middle,
      width: drawing.right - drawing.middle - room });
  }

  // All lines first: what stands on them is drawn over them.
  draw() {
    const { rows, storages } = this.drawing.layout;
    const byHome = new Map();
    for (const entry of storages) append(byHome, entry.home, entry);
    const pills = [...byHome].flatMap(([home, entries]) => (rows[home].kind === "module"
      ? [this.bundle(home, entries, rows[home])] : this.pills(home, entries)));
    return [pills.map((pill) => this.lines(pill)), pills.map((pill) => this.pill(pill))];
  }

  pills(home, entries) {
    const fitting = this.fitting(entries);
    const shown = entries.slice(0, fitting), rest = entries.slice(fitting);
    const others = rest.length > 0 ? widthOfMore : 0;
    const width = (this.width + gap - (others > 0 ? others + gap : 0)) / fitting - gap;
    const at = (k) => ({ home, x: this.from + k * (width + gap), width });
    const list = shown.map(({ kept, slots }, k) => ({ ...at(k), slots, key: kept.key, list: [kept],
      select: kept.key, text: nameOf(kept) }));
    return rest.length === 0 ? list : [...list, { ...merged(rest), ...at(fitting), width: others, isRest: true,
      text: `${formatCount(rest.length)} more` }];
  }

  // How many stand one by one so that each shows at least its short text; one in any case.
  fitting(entries) {
    const least = Math.max(...entries.map(({ kept }) =>
      short(nameOf(kept)).length + formatCount(kept.bytes).length + 2)) * letter + padding;
    if (entries.length <= inRow && entries.length * (least + gap) <= this.width + gap)
      return entries.length;
    return Math.max(1, Math.min(inRow, entries.length - 1,
      Math.floor((this.width - widthOfMore) / (least + gap))));
  }

  // What a folded module saves, as one.
  bundle(home, entries, row) {
    return { ...merged(entries), home, x: this.from, width: this.width, isBundle: true,
      select: row.key, text: `${plural(entries.length, "tensor")} made ` +
        `${entries.some(({ kept }) => kept.anyway) ? "or read " : ""}inside,` };
  }

  isSelected({ list }) {
    return list.some(({ key }) => key === this.app.state.value.select);
  }

  lines(pill) {
    const { drawing } = this, { side, margin } = drawing;
    const y = drawing.y(pill.home), from = margin + side, end = pill.x + pill.width;
    const to = drawing.width - 10 - side;
    return svg("g", { class: this.isSelected(pill) ? "edge selected" : "edge" },
      svg("path", { class: "makes", d: `M${from} ${y}H${pill.x}` }),
      [...pill.slots.keys()].map((row) => svg("path", { class: "reads", d: `M${end} ${y}` +
        `C${end + 30} ${y} ${to - 44} ${drawing.y(row)} ${to} ${drawing.y(row)}` })));
  }

  // Its exact bytes are never cut off; larger units stand behind them where there is room. Of a
  // name the end tells more than the beginning. What is left over is counted, with its bytes in the
  // title alone.
  text({ text, list, width, isRest }) {
    if (isRest) return text;
    const bytes = sumOf(list, "bytes");
    const most = Math.floor((width - padding) / letter), both = formatBytes(bytes);
    const figure = text.length + both.length + 2 <= most ? both : formatCount(bytes);
    const left = most - figure.length - 2;
    return left >= 3 ? `${text.length <= left ? text : clipStart(short(text), left)}  ${figure}`
      : figure;
  }

  pill(pill) {
    const { x, width, key, select, list } = pill, y = this.drawing.y(pill.home);
    const { colours, changes } = this.drawing;
    const act = () => (select ? this.app.select(select) : undefined);
    const text = this.text(pill), whole = `${pill.text}  ${formatBytes(sumOf(list, "bytes"))}`;
    const names = ["storage press", this.isSelected(pill) ? "selected" : "",
      pill.isBundle ? "bundle" : "", changes.ofKept(list, this.app.model.graph)];
    return svg("g", { class: names.join(" "), tabindex: select ? 0 : null,
      role: select ? "button" : null, "data-key": key, "aria-label": `saved: ${whole}`,
      on: { click: act, keydown: onEnter(act) } }, svg("title", {}, whole),
    svg("rect", { class: `part ${partClass(colours.ofKept(list))}`, x, y: y - 10, width,
      height: 20, rx: 10 }),
    svg("text", { x: x + width / 2, y: y + 4, "text-anchor": "middle" }, text));
  }
}

/** What is saved, in the drawing. */
export const drawSaved = (drawing) => new Saved(drawing).draw();

// What is saved, drawn once each between the passes: in the row of what made it, with dashed lines
// to the rules that read it.
import { partClass } from "./tape_colours.js";
import { onEnter, svg } from "./dom.js";
import { clip, formatBytes, formatCount, plural } from "./format.js";
import { append } from "./lists.js";

const gap = 6;
const inRow = 4;     // the others are counted
const room = 76;     // at the right, for the lines
const letter = 6.9;  // pixels of one

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
    const shown = entries.slice(0, inRow), rest = entries.slice(inRow);
    const count = shown.length + (rest.length > 0 ? 1 : 0);
    const width = (this.width - gap * (count - 1)) / count;
    const at = (k) => ({ home, x: this.from + k * (width + gap), width });
    const list = shown.map(({ kept, slots }, k) => ({ ...at(k), slots, key: kept.key, list: [kept],
      select: kept.key, text: kept.value.name || `(${kept.value.shape.join(", ")})` }));
    return rest.length === 0 ? list : [...list, { ...merged(rest), ...at(inRow),
      text: `${formatCount(rest.length)} more` }];
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

  // Its exact bytes are never cut off; larger units stand behind them where there is room.
  text({ text, list, width }) {
    const bytes = list.reduce((sum, kept) => sum + kept.bytes, 0);
    const most = Math.floor((width - 16) / letter), both = formatBytes(bytes);
    const figure = text.length + both.length + 2 <= most ? both : formatCount(bytes);
    const left = most - figure.length - 2;
    return left >= 3 ? `${clip(text, left)}  ${figure}` : figure;
  }

  pill(pill) {
    const { x, width, key, select, list } = pill, y = this.drawing.y(pill.home);
    const { colours, changes } = this.drawing;
    const act = () => (select ? this.app.select(select) : undefined);
    const text = this.text(pill);
    const names = ["storage press", this.isSelected(pill) ? "selected" : "",
      pill.isBundle ? "bundle" : "", changes.ofKept(list, this.app.model.graph)];
    return svg("g", { class: names.join(" "), tabindex: select ? 0 : null,
      role: select ? "button" : null, "data-key": key, "aria-label": `saved: ${text}`,
      on: { click: act, keydown: onEnter(act) } },
    svg("rect", { class: `part ${partClass(colours.ofKept(list))}`, x, y: y - 10, width,
      height: 20, rx: 10 }),
    svg("text", { x: x + width / 2, y: y + 4, "text-anchor": "middle" }, text));
  }
}

/** What is saved, in the drawing. */
export const drawSaved = (drawing) => new Saved(drawing).draw();

// The graph, drawn as the tape that it is: the forward pass down the left side, the backward pass
// up the right side, and between them, once each, what is saved by the one for the other.
import { h, panel, svg } from "./dom.js";
import { formatCount, formatUnits, plural } from "./format.js";
import { layoutTape, mostRows } from "./tape_layout.js";

const rowHeight = 30, boxHeight = 22, laneWidth = 9, mostLanes = 8, indent = 12, gap = 6;
const mostStorages = 4;  // drawn in a row; the others are counted

const clip = (text, characters) =>
  (text.length <= characters ? text : `${text.slice(0, characters - 1)}…`);

class TapePanel {
  constructor(app) {
    this.app = app;
    this.figure = h("div", { class: "drawing" });
    this.note = h("p", { class: "about", role: "status" });
    this.element = panel("tape", "The tape", "Top to bottom: the forward pass (left). Bottom to " +
      "top: the backward pass (right). Between them stands what is saved, once each, in the row of " +
      "what made it; dashed lines lead to the rules that read it. Click a module to unfold it.",
    this.note, this.figure);
  }

  update() {
    const { app } = this;
    const { tape, select } = app.state.value;
    const shown = JSON.stringify([tape, select, app.other !== null]);
    if (shown === this.shown && app.other === this.other) return;
    this.shown = shown;
    this.other = app.other;
    const all = layoutTape(app.model, tape);
    this.changed = app.other ? new Map(app.changeEntries.filter(({ idBefore, slot }) =>
      !slot && idBefore >= 0).map(({ idBefore, kind }) => [idBefore, kind])) : new Map();
    this.note.textContent = all.left > 0 ? `${plural(all.left, "more row")} not drawn: the ` +
      `drawing stops after ${formatCount(mostRows)}. Fold a module to see what follows.` : "";
    this.note.hidden = all.left === 0;
    this.draw(all);
  }

  // ---- where things stand ----

  measure(all) {
    const width = Math.max(this.figure.clientWidth, 640);
    const lanes = Math.min(all.lanes, mostLanes);
    this.margin = 10 + laneWidth * (lanes + 1);
    this.side = Math.min(300, Math.max(170, width * 0.26));
    this.width = width;
    this.middle = this.margin + this.side + 40;
    this.right = width - this.side - 10;
    this.height = all.rows.length * rowHeight + 40;
  }

  y(row) { return 34 + row * rowHeight; }

  draw(all) {
    this.measure(all);
    const drawing = svg("svg", { width: this.width, height: this.height, role: "group",
      "aria-label": "The tape" }, this.heads(), all.modules.map((module) => this.frame(module)),
    all.reads.map((read) => this.read(read)), this.savedOf(all),
    all.rows.map((row, i) => [this.box(row, i, false), this.box(row, i, true)]));
    this.figure.replaceChildren(drawing);
  }

  heads() {
    const head = (x, text, anchor) => svg("text", { x, y: 16, class: "head",
      "text-anchor": anchor }, text);
    return [head(this.margin, "forward ↓", "start"),
      head((this.middle + this.right) / 2, "saved for the backward pass", "middle"),
      head(this.width - 10, "backward ↑", "end")];
  }

  // The border of an open module, with a button that folds it.
  frame({ path, depth, from, to }) {
    const inset = Math.min(depth, 6) * 4;
    const x = this.margin - 6 + inset, y = this.y(from) - boxHeight / 2 - 4;
    const fold = () => this.app.state.set({ tape: this.app.state.value.tape.filter((open) =>
      open !== path && !open.startsWith(`${path}.`)) });
    const tall = (to - from) * rowHeight + boxHeight + 8;
    const name = clip(path, 40);
    return svg("g", { class: "frame" },
      svg("rect", { x, y, width: this.width - 4 - 2 * inset - x + 0, height: tall, rx: 5 }),
      svg("g", { class: "press", tabindex: 0, role: "button", "aria-label": `fold ${path}`,
        "data-fold": path, on: { click: fold, keydown: (event) => onEnter(event, fold) } },
      svg("text", { x: this.middle - 34, y: y + 11, class: "frame-name" }, `▾ ${name}`)));
  }

  read({ from, to, lane }) {
    const x = this.margin + 10;
    if (lane === undefined)
      return svg("path", { class: "read", d: `M${x} ${this.y(from)}V${this.y(to)}` });
    const out = this.margin - 8 - laneWidth * (1 + Math.min(lane, mostLanes - 1));
    return svg("path", { class: "read", d: `M${this.margin} ${this.y(from)}H${out + 4}` +
      `Q${out} ${this.y(from)} ${out} ${this.y(from) + 5}V${this.y(to) - 5}` +
      `Q${out} ${this.y(to)} ${out + 4} ${this.y(to)}H${this.margin}` });
  }

  // ---- operations and modules ----

  box(row, i, isMirror) {
    const inset = Math.min(row.depth, 8) * indent;
    const width = this.side - inset, x = isMirror ? this.width - 10 - this.side : this.margin + inset;
    const y = this.y(i) - boxHeight / 2, { app } = this;
    const isOpenable = row.kind === "module";
    const act = () => (isOpenable ? app.state.set({ tape: [...app.state.value.tape, row.path],
      select: row.key }) : app.select(row.key));
    const saved = isOpenable ? this.savedText(row) : "";
    const change = [...new Set(row.nodes.map((node) => this.changed.get(node)).filter(Boolean))];
    const names = ["press", "box", row.kind, isMirror ? "mirror" : "", change.length > 0
      ? (change.length > 1 ? "changed" : change[0]) : "",
    app.state.value.select === row.key ? "selected" : ""];
    const ran = isMirror && !row.nodes.some((node) => app.backwardNodes.has(node));
    if (ran && app.model.line) return null;
    return svg("g", { class: names.join(" "), tabindex: isMirror ? null : 0, role: "button",
      "data-key": row.key, "data-mirror": isMirror, "aria-label": isOpenable
        ? `unfold ${row.name}` : row.name,
      on: { click: act, keydown: (event) => onEnter(event, act) } },
    svg("rect", { x, y, width, height: boxHeight, rx: 4 }),
    svg("text", { x: x + 8, y: y + 15 }, clip(`${isOpenable ? "▸ " : ""}${row.name}`,
      Math.floor((width - (saved && !isMirror ? 120 : 16)) / 7)),
    isOpenable ? svg("tspan", { class: "quiet" }, ` ${row.nodes.length} ops`) : null),
    saved && !isMirror ? svg("text", { x: x + width - 8, y: y + 15, "text-anchor": "end",
      class: "quiet" }, saved) : null);
  }

  savedText(row) {
    const module = this.app.model.byPath.get(row.path);
    return module && module.activations > 0 ? formatUnits(module.activations) : "";
  }

  // ---- what is saved ----

  savedOf(all) {
    const byHome = new Map();
    for (const entry of all.storages)
      byHome.set(entry.home, [...(byHome.get(entry.home) ?? []), entry]);
    return [...byHome].map(([home, entries]) => this.savedInRow(all, home, entries));
  }

  savedInRow(all, home, entries) {
    const row = all.rows[home];
    if (row.kind === "module") return this.bundle(home, entries);
    const shown = entries.slice(0, mostStorages);
    return shown.map((entry, k) => this.storage(home, entry, k, shown.length));
  }

  storage(home, { kept, slots }, k, count) {
    const room = this.right - this.middle - 20, width = (room - gap * (count - 1)) / count;
    const x = this.middle + k * (width + gap), y = this.y(home);
    const { app } = this;
    const act = () => app.select(kept.key);
    const text = `${clip(kept.value.name || `(${kept.value.shape.join(", ")})`,
      Math.max(6, Math.floor((width - 80) / 7)))} ${formatUnits(kept.bytes)}`;
    const isSelected = app.state.value.select === kept.key;
    return svg("g", { class: `storage${isSelected ? " selected" : ""}` },
      svg("path", { class: "makes", d: `M${this.margin + this.side} ${y}H${x}` }),
      [...slots].map(([row, names], n) => this.edge(x + width, y, row, names, n, isSelected)),
      svg("g", { class: "press", tabindex: 0, role: "button", "data-key": kept.key,
        "aria-label": `saved ${text}`, on: { click: act, keydown: (event) => onEnter(event, act) } },
      svg("rect", { x, y: y - 10, width, height: 20, rx: 10 }),
      svg("text", { x: x + width / 2, y: y + 4, "text-anchor": "middle" }, text)));
  }

  // To the rule that reads the storage, with the slot's name.
  edge(x, y, row, names, n, isSelected) {
    const to = this.width - 10 - this.side, end = this.y(row) + 3 + 2 * (n % 3);
    const label = isSelected || row * rowHeight !== y ? names.join(", ") : names.join(", ");
    return svg("g", { class: "edge" },
      svg("path", { d: `M${x} ${y}C${x + 26} ${y} ${to - 40} ${end} ${to} ${end}` }),
      svg("text", { x: to - 4, y: end - 3, "text-anchor": "end" }, clip(label, 14)));
  }

  // What a folded module saves, as one.
  bundle(home, entries) {
    const bytes = entries.reduce((sum, { kept }) => sum + kept.bytes, 0);
    const y = this.y(home), x = this.middle, width = this.right - this.middle - 20;
    const rows = new Set(entries.flatMap(({ slots }) => [...slots.keys()]));
    const chosen = entries.some(({ kept }) => kept.key === this.app.state.value.select);
    return svg("g", { class: `storage bundle${chosen ? " selected" : ""}` },
      svg("path", { class: "makes", d: `M${this.margin + this.side} ${y}H${x}` }),
      [...rows].map((row) => this.edge(x + width, y, row, [], 0, false)),
      svg("rect", { x, y: y - 10, width, height: 20, rx: 10 }),
      svg("text", { x: x + width / 2, y: y + 4, "text-anchor": "middle" },
        `${plural(entries.length, "tensor")} made inside, ${formatUnits(bytes)}`));
  }
}

function onEnter(event, act) {
  if (event.key !== "Enter" && event.key !== " ") return;
  event.preventDefault();
  event.stopPropagation();
  act();
}

export const tapePanel = (app) => new TapePanel(app);

// The graph, drawn as the tape that it is: the forward pass down the left side, the backward pass
// up the right side, and between them, once each, what is saved by the one for the other.
import { h, panel, svg } from "./dom.js";
import { formatCount, formatUnits, plural } from "./format.js";
import { layoutTape, mostRows } from "./tape_layout.js";

const rowHeight = 30, boxHeight = 22, laneWidth = 9, mostLanes = 8, indent = 12, gap = 6;
const widest = 1300;
const mostStorages = 4;  // drawn in a row; the others are counted

const clip = (text, characters) =>
  (text.length <= characters ? text : `${text.slice(0, characters - 1)}…`);

const marks = { node: "", module: "▸ ", open: "▾ " };
const verbs = { node: "operation", module: "unfold", open: "fold" };

const insetOf = (row) => Math.min(row.inside.length, 8) * indent;

class TapePanel {
  constructor(app) {
    this.app = app;
    this.uses = ["tape", "select"];
    this.figure = h("div", { class: "drawing" });
    this.note = h("p", { class: "about", role: "status" });
    this.element = panel("tape", "The tape", "Top to bottom: the forward pass (left). Bottom to " +
      "top: the backward pass (right). Between them stands what is saved, once each, in the row " +
      "of what made it; dashed lines lead to the rules that read it. Click a module to unfold it.",
    this.note, this.figure);
  }

  update() {
    const { app } = this;
    const all = layoutTape(app.model, app.state.value.tape);
    this.changed = app.other ? new Map(app.changeEntries.filter(({ idBefore, slot }) =>
      !slot && idBefore >= 0).map(({ idBefore, kind }) => [idBefore, kind])) : new Map();
    const notes = [];
    if (all.left > 0) notes.push(`${plural(all.left, "more row")} not drawn: the drawing stops ` +
      `after ${formatCount(mostRows)}. Fold a module to see what follows.`);
    if (app.other) notes.push("A thick border: red where an operation is removed, yellow where " +
      "it, or some in a module, changed. What is new stands in the list of changes above.");
    this.note.textContent = notes.join(" ");
    this.note.hidden = notes.length === 0;
    this.draw(all);
  }

  // ---- where things stand ----

  measure(all) {
    const width = Math.min(Math.max(this.figure.clientWidth, 640), widest);
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
      "aria-label": "The tape" }, this.heads(), all.frames().map((frame) => this.frame(frame)),
    all.reads.map((read) => this.read(all.rows, read)), this.savedOf(all),
    all.rows.map((row, i) => [this.box(row, i, false), this.box(row, i, true)]));
    const focused = this.figure.contains(document.activeElement)
      ? document.activeElement.dataset.key : null;
    this.figure.replaceChildren(drawing);
    if (focused) this.figure.querySelector(`[tabindex][data-key=${CSS.escape(focused)}]`)?.focus();
  }

  heads() {
    const head = (x, text, anchor) => svg("text", { x, y: 16, class: "head",
      "text-anchor": anchor }, text);
    return [head(this.margin, "forward ↓", "start"),
      head((this.middle + this.right) / 2, "saved for the backward pass", "middle"),
      head(this.width - 10, "backward ↑", "end")];
  }

  // The border of an open module.
  frame({ depth, from, to }) {
    const inset = Math.min(depth, 8) * indent;
    const x = this.margin - 6 + inset, y = this.y(from) - boxHeight / 2 - 3;
    return svg("rect", { class: "frame", x, y, width: this.width - 4 - depth * 3 - x,
      height: (to - from) * rowHeight + boxHeight + 6, rx: 5 });
  }

  read(rows, { from, to, lane }) {
    const side = (row) => this.margin + insetOf(rows[row]);
    if (lane === undefined) {
      const x = Math.max(side(from), side(to)) + 10;
      return svg("path", { class: "read", d: `M${x} ${this.y(from)}V${this.y(to)}` });
    }
    const out = this.margin - 8 - laneWidth * (1 + Math.min(lane, mostLanes - 1));
    return svg("path", { class: "read", d: `M${side(from)} ${this.y(from)}H${out + 4}` +
      `Q${out} ${this.y(from)} ${out} ${this.y(from) + 5}V${this.y(to) - 5}` +
      `Q${out} ${this.y(to)} ${out + 4} ${this.y(to)}H${side(to)}` });
  }

  // ---- operations and modules ----

  box(row, i, isMirror) {
    if (isMirror && !this.ranBackward(row)) return null;
    const inset = insetOf(row), width = this.side - inset;
    const x = isMirror ? this.width - 10 - this.side : this.margin + inset;
    const y = this.y(i) - boxHeight / 2, saved = isMirror ? "" : this.savedText(row);
    const ops = row.kind === "module" ? ` ${plural(row.nodes.length, "op")}` : "";
    const room = Math.floor((width - 22) / 7.2) - ops.length - saved.length;
    const act = () => this.press(row);
    return svg("g", { class: this.namesOf(row, isMirror), tabindex: isMirror ? null : 0,
      role: "button", "data-key": row.key, "data-mirror": isMirror, "data-kind": row.kind,
      "aria-label": `${verbs[row.kind]} ${row.path ?? row.name}`,
      on: { click: act, keydown: (event) => onEnter(event, act) } },
    svg("rect", { x, y, width, height: boxHeight, rx: 4 }),
    svg("text", { x: x + 8, y: y + 15 }, `${marks[row.kind]}${clip(row.name, Math.max(room, 6))}`,
      svg("tspan", { class: "quiet" }, ops)),
    saved && svg("text", { x: x + width - 8, y: y + 15, "text-anchor": "end", class: "quiet" },
      saved));
  }

  // A folded module unfolds, an open one folds, an operation is selected.
  press(row) {
    const { state } = this.app, { tape } = state.value;
    if (row.kind === "node") this.app.select(row.key);
    else if (row.kind === "module") state.set({ tape: [...tape, row.path], select: row.key });
    else state.set({ tape: tape.filter((open) =>
      open !== row.path && !open.startsWith(`${row.path}.`)) });
  }

  ranBackward(row) {
    if (row.kind === "open") return false;
    return !this.app.model.line || row.nodes.some((node) => this.app.backwardNodes.has(node));
  }

  namesOf(row, isMirror) {
    const changes = new Set(row.nodes.map((node) => this.changed.get(node)).filter(Boolean));
    const change = changes.size > 1 ? "changed" : [...changes][0] ?? "";
    return ["press", "box", row.kind, isMirror ? "mirror" : "", change,
      this.app.state.value.select === row.key ? "selected" : ""].join(" ");
  }

  savedText(row) {
    const module = row.kind === "module" && this.app.model.byPath.get(row.path);
    return module && module.activations > 0 ? formatUnits(module.activations) : "";
  }

  // ---- what is saved ----

  // All lines first: what stands on them is drawn over them.
  savedOf(all) {
    const byHome = new Map();
    for (const entry of all.storages)
      byHome.set(entry.home, [...(byHome.get(entry.home) ?? []), entry]);
    const pills = [...byHome].flatMap(([home, entries]) => (all.rows[home].kind === "module"
      ? [this.bundle(home, entries)] : this.pills(home, entries)));
    return [pills.map((pill) => this.lines(pill)), this.slotNames(pills), pills.map((pill) =>
      this.pill(pill))];
  }

  pills(home, entries) {
    const shown = entries.slice(0, mostStorages), rest = entries.slice(mostStorages);
    const count = shown.length + (rest.length > 0 ? 1 : 0);
    const width = (this.right - this.middle - 30 - gap * (count - 1)) / count;
    const at = (k) => ({ home, x: this.middle + k * (width + gap), width });
    const list = shown.map(({ kept, slots }, k) => ({ ...at(k), slots, key: kept.key,
      text: kept.value.name || `(${kept.value.shape.join(", ")})`, bytes: kept.bytes }));
    return rest.length === 0 ? list : [...list, { ...merged(rest), ...at(mostStorages),
      text: `${formatCount(rest.length)} more` }];
  }

  // What a folded module saves, as one.
  bundle(home, entries) {
    return { ...merged(entries), home, x: this.middle, width: this.right - this.middle - 30,
      text: `${plural(entries.length, "tensor")} made inside,`, isBundle: true };
  }

  isSelected({ key, keys }) {
    const { select } = this.app.state.value;
    return key ? key === select : keys.includes(select);
  }

  lines(pill) {
    const y = this.y(pill.home), from = this.margin + this.side, end = pill.x + pill.width;
    const to = this.width - 10 - this.side;
    return svg("g", { class: this.isSelected(pill) ? "edge selected" : "edge" },
      svg("path", { class: "makes", d: `M${from} ${y}H${pill.x}` }),
      [...pill.slots.keys()].map((row) => svg("path", { class: "reads",
        d: `M${end} ${y}C${end + 30} ${y} ${to - 44} ${this.y(row)} ${to} ${this.y(row)}` })));
  }

  // Beside each rule, the slots that it reads.
  slotNames(pills) {
    const names = new Map();
    for (const { slots, isBundle } of pills)
      for (const [row, list] of slots)
        if (!isBundle) names.set(row, new Set([...(names.get(row) ?? []), ...list]));
    return [...names].map(([row, list]) => svg("text", { class: "slot", "text-anchor": "end",
      x: this.width - 14 - this.side, y: this.y(row) - 4 }, clip([...list].join(", "), 18)));
  }

  pill(pill) {
    const { x, width, home, key } = pill, y = this.y(home);
    const act = () => (key ? this.app.select(key) : undefined);
    const text = `${clip(pill.text, Math.max(5, Math.floor((width - 76) / 7)))} ` +
      formatUnits(pill.bytes);
    return svg("g", { class: `storage press${this.isSelected(pill) ? " selected" : ""}${
      pill.isBundle ? " bundle" : ""}`, tabindex: key ? 0 : null, role: key ? "button" : null,
    "data-key": key, "aria-label": `saved: ${text}`,
    on: { click: act, keydown: (event) => onEnter(event, act) } },
    svg("rect", { x, y: y - 10, width, height: 20, rx: 10 }),
    svg("text", { x: x + width / 2, y: y + 4, "text-anchor": "middle" }, text));
  }
}

// Several storages as one: who reads any of them, and their bytes.
function merged(entries) {
  const slots = new Map();
  for (const entry of entries)
    for (const [row, names] of entry.slots) slots.set(row, [...(slots.get(row) ?? []), ...names]);
  return { slots, keys: entries.map(({ kept }) => kept.key),
    bytes: entries.reduce((sum, { kept }) => sum + kept.bytes, 0) };
}

function onEnter(event, act) {
  if (event.key !== "Enter" && event.key !== " ") return;
  event.preventDefault();
  event.stopPropagation();
  act();
}

export const tapePanel = (app) => new TapePanel(app);

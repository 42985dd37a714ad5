// The drawing of a tape that is laid out: boxes for operations and modules, the forward pass left,
// the backward pass right, lines for who reads what, and what is saved between them.
import { partClass } from "./tape_colours.js";
import { onEnter, svg } from "./dom.js";
import { clip, formatCount, plural } from "./format.js";
import { isWithin } from "./module_tree.js";
import { drawSaved, slotsByRow } from "./tape_saved.js";

const rowHeight = 30, boxHeight = 22, laneWidth = 9, mostLanes = 8, indent = 12;
const letter = 7.2;   // pixels of one
const leastName = 6;  // letters of a name that stay

const gap = 12;       // between heads

// Heads of the middle and of the backward pass, shorter ones for narrower drawings.
const heads = [
  ["saved for the backward pass: shape, bytes", "backward ↑: rules, and the slots they read"],
  ["saved: shape, bytes", "backward ↑: rules, slots read"],
  ["saved", "backward ↑"],
];

const marks = { node: "", module: "▸ ", open: "▾ ", added: "+ " };
const verbs = { node: "operation", module: "unfold", open: "fold", added: "new operation" };

const insetOf = (row) => Math.min(row.inside.length, 8) * indent;

class Drawing {
  constructor(app, layout, colours, changes, width) {
    Object.assign(this, { app, layout, colours, changes });
    this.width = Math.max(width, 640);
    this.margin = 10 + laneWidth * (Math.min(layout.lanes, mostLanes) + 1);
    this.side = Math.min(420, Math.max(170, this.width * 0.26));
    this.middle = this.margin + this.side + 40;   // where what is saved begins
    this.right = this.width - this.side - 10;     // where the backward pass does
    this.slots = slotsByRow(layout);
  }

  y(row) { return 34 + row * rowHeight; }

  draw() {
    const { layout } = this, { rows } = layout;
    return svg("svg", { width: this.width, height: rows.length * rowHeight + 40, role: "group",
      "aria-label": "The tape" }, this.heads(), layout.frames().map((frame) => this.frame(frame)),
    layout.reads.map((read) => this.read(rows, read)), drawSaved(this),
    rows.map((row, i) => [this.box(row, i, false), this.box(row, i, true)]));
  }

  heads() {
    const head = (x, text, anchor) => svg("text", { x, y: 16, class: "head",
      "text-anchor": anchor }, text);
    const middle = (this.middle + this.right) / 2;
    const [saved, backward] = heads.find(([one, other]) => one.length * letter / 2 + gap <
      Math.min(this.width - 10 - other.length * letter - middle, middle - this.middle + 40)) ??
      heads.at(-1);
    return [head(this.margin, "forward ↓", "start"), head(middle, saved, "middle"),
      head(this.width - 10, backward, "end")];
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
    const y = this.y(i) - boxHeight / 2, count = this.count(row);
    const all = Math.floor((width - 22) / letter) - count.length;
    const most = all - Math.min(row.name.length, leastName), asked = this.word(row, i);
    const word = isMirror ? clip(this.slots.get(i) ?? "", Math.max(most, 1))
      : asked.length <= most ? asked : "";
    const room = all - word.length;
    const act = () => this.press(row);
    return svg("g", { class: this.namesOf(row, isMirror), tabindex: isMirror ? null : 0,
      role: "button", "data-key": row.key, "data-mirror": isMirror, "data-kind": row.kind,
      "aria-label": `${verbs[row.kind]} ${row.path ?? row.name}`,
      on: { click: act, keydown: onEnter(act) } },
    svg("rect", { class: "ground", x, y, width, height: boxHeight, rx: 4 }),
    this.parts(row, i, { x, y, width }),
    svg("rect", { class: "border", x, y, width, height: boxHeight, rx: 4 }),
    svg("text", { x: x + 8, y: y + 15 },
      marks[row.kind] + clip(row.name, Math.max(room, leastName)),
      svg("tspan", { class: "quiet" }, count)),
    word && svg("text", { x: x + width - 8, y: y + 15, "text-anchor": "end",
      class: isMirror ? "slot" : "quiet" }, word));
  }

  count({ kind, nodes, added }) {
    if (kind !== "module") return "";
    return ` ${plural(nodes.length, "op")}${added.length > 0 ? ` + ${added.length} new` : ""}`;
  }

  // Fields of colour, each as wide as its share.
  parts(row, i, { x, y, width }) {
    let at = x;
    return this.colours.ofRow(row, i).map(({ name, share }) => {
      const field = svg("rect", { class: `part ${partClass(name)}`, x: at, y,
        width: width * share, height: boxHeight, rx: 3 });
      at += width * share;
      return field;
    });
  }

  // What stands at the right of a box.
  word(row, i) {
    if (row.kind === "added") {
      const bytes = this.changes.bytesKept(row.added[0]);
      return bytes > 0 ? formatCount(bytes) : "";
    }
    const word = this.colours.wordOf(row, i);
    const module = row.kind === "module" && this.app.model.byPath.get(row.path);
    return word || (module && module.activations > 0 ? formatCount(module.activations) : "");
  }

  // A folded module unfolds, an open one folds, an operation is selected.
  press(row) {
    const { state } = this.app, { tape } = state.value;
    if (row.kind === "module") state.set({ tape: [...tape, row.path], select: row.key });
    else if (row.kind === "open") state.set({ tape: tape.filter((open) =>
      !isWithin(open, row.path)) });
    else this.app.select(row.key);
  }

  ranBackward({ kind, nodes, added }) {
    const { model, other } = this.app;
    if (kind === "open") return false;
    if (kind === "added") return !other.line || other.backwardNodes.has(added[0]);
    return !model.line || nodes.some((node) => model.backwardNodes.has(node));
  }

  namesOf(row, isMirror) {
    return ["press", "box", row.kind, isMirror ? "mirror" : "", this.changes.ofRow(row),
      this.app.state.value.select === row.key ? "selected" : ""].join(" ");
  }
}

/** The drawing, no wider than so many pixels where they suffice. */
export const drawTape = (app, layout, colours, changes, width) =>
  new Drawing(app, layout, colours, changes, width).draw();

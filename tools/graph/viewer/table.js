// A table of any length: only the rows in sight are elements. A click, or Enter on the row that the
// arrow keys are at, opens a row; an event "rowat" tells the key of that row.
import { h, hasModifier } from "./dom.js";
import { formatCount, formatUnits } from "./format.js";
import { orderOf } from "./lists.js";

const beyond = 6, printed = 24;
const padding = 10;  // of a row, in pixels; the style sheet has it, too

/** A cell of two lines. */
export const lines = (first, second) => [h("div", {}, first), h("div", { class: "second" }, second)];

/** Bytes in two lines: exact, and in larger units. */
export const byteLines = (bytes) =>
  lines(formatCount(bytes), bytes < 1024 ? "" : formatUnits(bytes));

export class Table {
  /**
   * columns: {key, title, width (of a CSS grid), cell(row), right, sortable}. A cell is text, a
   * node or a list of these. key(row) names a row; open(row) is called for the one that is chosen;
   * sort(key) when a sortable head is clicked. `tallest`: the most rows in sight; `height`: of a
   * row, in pixels.
   */
  constructor({ label, columns, key, open, sort, tallest = 14, height = 28, empty = "no rows" }) {
    Object.assign(this, { columns, key, open, sort, tallest, height, empty, rows: [], at: -1,
      selected: "", order: "" });
    this.head = h("div", { class: "head", role: "row" });
    this.body = h("div", { class: "rows", role: "rowgroup" });
    this.view = h("div", { class: "view", tabindex: 0, "aria-label": `${label}: rows`,
      on: { scroll: () => this.draw(), keydown: (event) => this.press(event),
        click: (event) => this.click(event) } }, this.body);
    this.element = h("div", { class: "table", role: "table", "aria-label": label },
      this.head, this.view);
    addEventListener("beforeprint", () => this.draw(printed));
    addEventListener("afterprint", () => this.draw());
  }

  /** `order`: "bytes" or, downwards, "-bytes"; `selected`: the key of a row. */
  show(rows, { columns = this.columns, order = "", selected = "" } = {}) {
    Object.assign(this, { rows, columns, order, selected });
    this.element.style.setProperty("--columns", columns.map(({ width }) => width).join(" "));
    this.element.setAttribute("aria-rowcount", rows.length);
    const { key, sign } = orderOf(order), mark = sign < 0 ? "▾" : "▴";
    this.head.replaceChildren(...columns.map((column) => h("div", { role: "columnheader",
      class: column.right ? "right" : "", "data-key": column.key,
      "aria-sort": column.key === key ? (mark === "▾" ? "descending" : "ascending") : null },
    column.sortable ? h("button", { type: "button", class: "sort",
      on: { click: () => this.sort(column.key === key && mark === "▾" ? column.key
        : `-${column.key}`) } }, column.title, column.key === key ? ` ${mark}` : "")
      : column.title)));
    const inSight = Math.max(1, Math.min(rows.length, this.tallest));
    this.view.style.height = `${inSight * this.height + 2}px`;
    this.body.style.height = `${Math.max(1, rows.length) * this.height}px`;
    this.draw();
  }

  /** The keys go to the rows, as to the first of them. */
  focus() {
    this.view.focus();
    if (this.at < 0) this.stepTo(0);
  }

  /** Puts the row with this key into sight. */
  reveal(key) {
    const at = this.rows.findIndex((row) => this.key(row) === key);
    if (at >= 0) this.moveTo(at);
  }

  draw(count = 0) {
    const { scrollTop, clientHeight, offsetWidth, clientWidth } = this.view;
    // The head leaves out what the bar for scrolling takes.
    this.head.style.paddingRight = `${padding + offsetWidth - clientWidth}px`;
    const first = count ? 0 : Math.max(0, Math.floor(scrollTop / this.height) - beyond);
    const inSight = Math.ceil((clientHeight || this.tallest * this.height) / this.height);
    const last = Math.min(this.rows.length, count || first + inSight + 2 * beyond);
    const drawn = [];
    for (let i = first; i < last; ++i) drawn.push(this.row(this.rows[i], i));
    if (this.rows.length === 0) drawn.push(h("div", { class: "row none" }, this.empty));
    this.body.replaceChildren(...drawn);
  }

  row(row, i) {
    const key = this.key(row);
    const names = ["row", i === this.at ? "at" : "", key === this.selected ? "selected" : "",
      row.mark ?? ""];
    const element = h("div", { class: names.join(" "), role: "row", "data-row": i,
      "data-key": key, "aria-rowindex": i + 1, "aria-selected": key === this.selected },
    this.columns.map((column) => h("div", { role: "cell", "data-key": column.key,
      class: column.right ? "right" : "" }, column.cell(row))));
    element.style.top = `${i * this.height}px`;
    element.style.height = `${this.height}px`;
    return element;
  }

  click(event) {
    if (event.target.closest("button, input, label")) return;
    const element = event.target.closest("[data-row]");
    if (!element) return;
    this.at = Number(element.dataset.row);
    this.open(this.rows[this.at]);
  }

  press(event) {
    const page = Math.max(1, this.tallest - 2);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page,
      Home: -this.rows.length, End: this.rows.length };
    if (event.target !== this.view || hasModifier(event)) return;
    if (event.key in moves) {
      this.stepTo(this.at + moves[event.key]);
    } else if (event.key === "Enter" && this.rows[this.at]) this.open(this.rows[this.at]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // By the keys, which is told.
  stepTo(at) {
    this.moveTo(at);
    this.view.dispatchEvent(new CustomEvent("rowat", { bubbles: true,
      detail: this.rows[this.at] ? this.key(this.rows[this.at]) : "" }));
  }

  moveTo(at) {
    this.at = Math.min(Math.max(at, 0), this.rows.length - 1);
    const top = this.at * this.height, { scrollTop, clientHeight } = this.view;
    if (top < scrollTop) this.view.scrollTop = top;
    if (top + this.height > scrollTop + clientHeight)
      this.view.scrollTop = top + this.height - clientHeight;
    this.draw();
  }
}

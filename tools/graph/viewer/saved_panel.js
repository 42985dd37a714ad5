// Every tensor that the backward pass keeps: by whom, and why.
import { inLetters } from "./figures_panel.js";
import { changeBox } from "./modules_panel.js";
import { copyText, h, link, panel } from "./dom.js";
import { bytesText, describe, formatCount, formatUnits, plural, words } from "./format.js";
import { slotLabel, slotLabelInModule } from "./graph.js";
import { orderOf, sumOf } from "./lists.js";
import { bytesInLetters, shapeInLetters } from "./sizes.js";
import { Table, lines } from "./table.js";

const filters = [
  { name: "two-equal", label: "two equal dims", keeps: (row) => row.twoEqual },
  { name: "shared", label: "shared by several", keeps: (row) => row.shared },
  { name: "pins", label: "shows a part of larger memory", keeps: (row) => row.pins },
  { name: "unread", label: "read by no wanted gradient", keeps: (row, app) =>
    app.unread.has(row.key) },
  { name: "activations", label: "activations only", keeps: (row) => !row.anyway },
];

/** Whether there is such a filter. */
export const isFilter = (name) => filters.some((filter) => filter.name === name);

// The pattern as it was typed, or null when it is no regular expression.
function expressionOf(query) {
  try {
    return new RegExp(query, "i");
  } catch {
    return null;
  }
}

// What is no regular expression is taken as plain text.
function matcher(query) {
  const expression = expressionOf(query), plain = query.toLowerCase();
  return expression ? (text) => expression.test(text)
    : (text) => text.toLowerCase().includes(plain);
}

const orders = {
  bytes: (a, b) => a.bytes - b.bytes,
  made: (a, b) => a.what.localeCompare(b.what, "en"),
  shape: (a, b) => a.value.shape.length - b.value.shape.length ||
    a.needed - b.needed,
  savers: (a, b) => a.savers[0].localeCompare(b.savers[0], "en"),
  why: (a, b) => a.why.localeCompare(b.why, "en"),
  freed: (a, b) => a.freed - b.freed,
};

/** Whether rows can be sorted so: "bytes" or, downwards, "-bytes". */
export const isOrder = (order) => Object.hasOwn(orders, orderOf(order).key);

function sorted(rows, order) {
  const { key, sign } = orderOf(order), by = isOrder(order) ? orders[key] : orders.bytes;
  return [...rows].sort((a, b) => sign * by(a, b));
}

// The rows that the filters let through, in their order.
function chosenRows(app) {
  const { query, only, sort } = app.state.value;
  const matches = matcher(query);
  const wanted = filters.filter(({ name }) => only.includes(name));
  return sorted(app.model.kept.filter((row) => matches(row.text) &&
    wanted.every((filter) => filter.keeps(row, app))), sort);
}

// ---- copies ------------------------------------------------------------------------------------

const records = (app, rows) => rows.map((row) => ({
  bytes: row.bytes, category: row.category, dtype: row.value.dtype,
  savers: row.slots.map((slot) => slotLabel(app.model.graph, app.model.graph.saved[slot])),
  made_by: row.made, name: row.name, reason: row.why, shape: row.value.shape,
  freed_in_step: row.freed < 0 ? null : row.freed }));

const csvCell = (cell) => {
  const text = Array.isArray(cell) ? cell.join(" ") : String(cell ?? "");
  // What a spreadsheet would run as a formula becomes text.
  const inert = /^[=+\-@\t\r]/.test(text) && !/^-?[0-9.]+$/.test(text) ? `'${text}` : text;
  return `"${inert.replaceAll('"', '""')}"`;
};

// The rows as comma-separated values, with a head.
function csv(app, rows) {
  const all = records(app, rows);
  const names = ["bytes", "category", "dtype", "shape", "name", "made_by", "savers", "reason",
    "freed_in_step"];
  return [names.join(","), ...all.map((record) =>
    names.map((name) => csvCell(record[name])).join(","))].join("\n") + "\n";
}

// The header counts activations alone: the sum says what else is in it.
function sumText(rows, letters) {
  const all = sumOf(rows, "bytes"), anyway = sumOf(rows.filter((row) => row.anyway), "bytes");
  const formula = inLetters(rows, letters);
  return [bytesText(all), formula && [" ", formula], anyway > 0 &&
    `, of which ${formatCount(all - anyway)} of activations and ${formatCount(anyway)} of ` +
    "parameters and inputs that exist anyway"];
}

const wide = 1100;  // pixels from which on the formulas have a column

// ---- the panel ---------------------------------------------------------------------------------

class SavedPanel {
  constructor(app) {
    this.app = app;
    this.uses = ["query", "only", "sort", "changes", "select"];
    this.search = h("input", { id: "search", type: "search", spellcheck: "false",
      placeholder: "search names, operations, modules, reasons (regular expression)",
      "aria-label": "Search saved tensors", on: {
        input: () => app.state.set({ query: this.search.value }),
        keydown: (event) => this.leaveDown(event) } });
    this.skip = link("to the rows", () => this.table.focus(), { class: "link skip" });
    this.boxes = filters.map(({ name, label }) => {
      const box = h("input", { type: "checkbox", "data-filter": name,
        on: { change: () => app.state.toggle("only", name) } });
      return { name, box, element: h("label", {}, box, ` ${label}`) };
    });
    this.problem = h("span", { id: "search-problem", class: "problem", role: "alert" });
    this.sum = h("p", { id: "saved-sum", class: "about number" });
    this.table = new Table({ label: "Saved tensors", columns: this.columns(false),
      key: (row) => row.key, open: (row) => app.select(row.key), tallest: 11, height: 44,
      empty: "no saved tensor is like that", sort: (key) => app.state.set({ sort: key }) });
    this.element = panel("saved", "Saved tensors", "One row for each piece of memory that the " +
      "backward pass keeps: which operations keep it, and which gradient reads it.",
    h("div", { class: "line" }, this.search, this.skip, this.problem,
      this.boxes.map(({ element }) => element),
      this.copyButton("copy as CSV", (rows) => csv(app, rows)),
      this.copyButton("copy as JSON", (rows) => JSON.stringify(records(app, rows), null, 1))),
    this.sum, this.table.element);
  }

  // From the search down to what it found.
  leaveDown(event) {
    if (event.key !== "ArrowDown" && event.key !== "Enter") return;
    event.preventDefault();
    this.table.focus();
  }

  copyButton(label, text) {
    return h("button", { type: "button", class: "small", on: { click: (event) =>
      copyText(text(chosenRows(this.app)), event.currentTarget) } }, label);
  }

  columns(isWide) {
    const { app } = this;
    const formula = { key: "formula", title: "formula", width: "minmax(110px, 0.7fr)",
      cell: (row) => h("span", { class: "formula" },
        bytesInLetters(row.value, row.bytes, app.letters)) };
    return [
      { key: "savers", title: "kept by", width: "minmax(148px, 1.3fr)", sortable: true,
        cell: (row) => lines(slotLabelInModule(app.model.graph,
          app.model.graph.saved[row.slots[0]]) + (row.slots.length > 1 ? ` and ${formatCount(row.slots.length - 1)} more` : ""),
        row.modules[0] || "(root)") },
      { key: "made", title: "tensor", width: "minmax(112px, 0.8fr)", sortable: true,
        cell: (row) => (row.name ? lines(row.name, words(row.category))
          : lines(row.madeBy.operation, row.madeBy.from)) },
      { key: "shape", title: "shape", width: "minmax(142px, 0.8fr)", sortable: true,
        cell: (row) => lines(describe(row.value), [shapeInLetters(row.value.shape, app.letters),
          words(row.category)].filter(Boolean).join(" · ")) },
      { key: "bytes", title: "bytes", width: "minmax(100px, 0.6fr)", right: true, sortable: true,
        cell: (row) => lines(formatCount(row.bytes), row.pins
          ? `shows ${formatCount(row.needed)}` : formatUnits(row.bytes)) },
      ...(isWide && app.letters.length > 0 ? [formula] : []),
      { key: "why", title: "why", width: "minmax(140px, 1.8fr)", sortable: true,
        cell: (row) => h("div", { class: "two-lines" }, row.why) },
      { key: "freed", title: "freed", width: "66px", sortable: true, right: true,
        cell: (row) => (row.freed < 0 ? "not seen" : `step ${formatCount(row.freed)}`) },
      { key: "again", title: "recompute", width: "70px",
        cell: (row) => recomputeBox(app, row) ?? "" },
    ];
  }

  update() {
    const { app } = this;
    const { query, only, sort, select } = app.state.value;
    if (this.search.value !== query) this.search.value = query;
    this.problem.textContent = expressionOf(query) ? ""
      : "no regular expression: searched as plain text";
    this.search.setAttribute("aria-invalid", this.problem.textContent !== "");
    for (const { name, box } of this.boxes) box.checked = only.includes(name);
    const rows = chosenRows(app);
    this.sum.replaceChildren(h("span", {}, `${plural(rows.length, "tensor")} of ` +
      `${formatCount(app.model.kept.length)}: `, sumText(rows, app.letters)));
    this.table.show(rows.map((row) => ({ ...row, mark: row.anyway ? "anyway" : "" })),
      { columns: this.columns(this.element.clientWidth >= wide), order: sort, selected: select });
    if (select !== this.revealed && rows.some((row) => row.key === select)) {
      this.revealed = select;
      this.table.reveal(select);
    }
  }
}

export const savedPanel = (app) => new SavedPanel(app);

/** A box that makes what is kept again where it is read; null where no operation could. */
export function recomputeBox(app, { packing, slots }) {
  const { graph } = app.model;
  const isMade = (slot) => graph.values[graph.saved[slot].value].producer >= 0;
  if (packing >= 0 || !slots.every(isMade)) return null;
  const labels = [...new Set(slots.map((slot) => slotLabel(graph, graph.saved[slot])))];
  return changeBox(app, "recompute", labels, `recompute: ${labels.join(", ")}`);
}

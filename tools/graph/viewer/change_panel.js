// What is compared with what: a what-if question, or a second graph.
import { changeText, fusedNote, starredWords } from "./advice.js";
import { classOfChange, fact, facts, h, link, panel } from "./dom.js";
import { diff } from "./diff.js";
import { formatBytes, formatChange, formatCount, formatKnown, timesText } from "./format.js";
import { append, keyOf } from "./lists.js";
import { Table, lines } from "./table.js";
import { commands, figures, includesChange } from "./whatif.js";

const rows = [
  ["saved activations, bytes", "saved_activation_bytes"],
  ["all that is saved, bytes", "saved_bytes"],
  ["peak, bytes", "peak_bytes"],
  ["flops, with recomputation", "flops"],
];

function comparison(now, then, names) {
  return h("table", { id: "comparison", class: "plain" },
    h("thead", {}, h("tr", {}, h("th", {}, "figure"), [...names, "difference"].map((name) =>
      h("th", { class: "right" }, name)))),
    h("tbody", {}, rows.filter(([, key]) => now[key] !== undefined || then[key] !== undefined)
      .map(([name, key]) => {
        const isKnown = now[key] !== undefined && then[key] !== undefined;
        return h("tr", { "data-figure": isKnown && key }, h("td", {}, name),
          h("td", { class: "right number", "data-now": now[key] }, formatKnown(now[key])),
          h("td", { class: "right number", "data-then": then[key] }, formatKnown(then[key])),
          h("td", { class: `right number ${classOfChange(then[key] - now[key])}` },
          isKnown ? formatChange(then[key] - now[key]) : "unknown"));
      })));
}

const signs = { removed: "−", added: "+", changed: "~", moved: ">" };

const inSight = 16;  // characters that are left in any cell

// The text from the word in which it differs from the other, so that a cell that is cut shows it.
function fromDifference(text, other) {
  let same = 0;
  while (same < Math.min(text.length, other.length) && text[same] === other[same]) ++same;
  const start = same > inSight ? text.lastIndexOf(" ", same - 1) + 1 : 0;
  return start > 0 ? `… ${text.slice(start)}` : text;
}

// What it was, and below it what it is; one of them where there is no other.
function beforeAndAfter({ before, after }) {
  if (before === after || before === "" || after === "")
    return h("div", { class: "two-lines", title: before || after }, before || after);
  return [h("div", { title: before }, fromDifference(before, after)),
    h("div", { title: after }, "→ ", fromDifference(after, before))];
}

// Of what slots keep together no sum is told: they may keep the same memory.
const each = ({ all = [] }) => (all.length > 1 ? "each" : "");

function entryTable(app) {
  const columns = [
    { key: "kind", title: "change", width: "90px", cell: (row) =>
      lines(h("span", { class: `kind ${row.kind}` }, `${signs[row.kind]} ${row.kind}`),
        timesText(row.all.length)) },
    { key: "place", title: "where", width: "minmax(180px, 3fr)", cell: (row) =>
      lines(row.to ? `${row.place} → ${row.to}` : row.place,
        row.name || (row.madeBy && `made by ${row.madeBy}`)) },
    { key: "what", title: "what it was → what it is", width: "minmax(240px, 4fr)",
      cell: beforeAndAfter },
    { key: "bytes", title: "bytes kept", width: "100px", right: true, cell: (row) =>
      (row.slot ? lines(formatChange(row.bytesAfter - row.bytesBefore), each(row)) : "") },
  ];
  return new Table({ label: "What changed", columns, key: (row) => row.key, height: 44, tallest: 8,
    open: (row) => app.select(row.key), empty: "nothing differs" });
}

// What one entry and all that are alike, but for the numbers of their modules, have in common.
const likeness = ({ kind, slot, before, after, bytesBefore, bytesAfter, place, to, name, madeBy }) =>
  keyOf(kind, slot, before, after, bytesBefore, bytesAfter,
    ...[place, to, name, madeBy].map(starredWords));

// Several entries as one row.
function together(all) {
  const [first] = all;
  if (all.length === 1) return { ...first, key: `change:${first.id}`, all };
  const { place, to, name, madeBy } = first;
  return { ...first, key: `changes:${first.id}`, all, place: starredWords(place),
    to: starredWords(to), name: starredWords(name), madeBy: starredWords(madeBy) };
}

// Entries that are alike stand together, in the order of the first of each.
function groupsOf(entries) {
  const groups = new Map();
  for (const entry of entries) append(groups, likeness(entry), entry);
  return [...groups.values()].map(together);
}

// Operations and slots that differ, in one list with ids.
function changesOf(app) {
  const { nodes, slots } = diff(app.model.graph, app.other.graph);
  return [...slots.map((entry) => ({ ...entry, slot: true })),
    ...nodes.map((entry) => ({ ...entry, slot: false }))].map((entry, id) =>
    ({ ...entry, id: String(id), mark: entry.kind }));
}

const isFused = ({ nodes }) => nodes.some(({ operation }) => operation === "fused_attention");

class ChangePanel {
  constructor(app) {
    this.app = app;
    this.uses = ["changes"];
    this.list = h("div", { class: "changes" });
    this.answer = h("div");
    this.problem = h("p", { class: "problem", role: "alert" });
    this.kind = h("select", { id: "change-kind", "aria-label": "Kind of change" },
      h("option", { value: "checkpoint" }, "checkpoint modules"),
      h("option", { value: "fuse" }, "fused attention in modules"),
      h("option", { value: "recompute" }, "recompute saved slots"));
    this.pattern = h("input", { id: "change-pattern", type: "text", spellcheck: "false",
      required: true, placeholder: "layers.* (* and ? are wildcards)",
      "aria-label": "Which ones" });
    this.entries = entryTable(app);
    this.element = panel("change", "What if", h("span", {}, "Tick modules (checkpoint) or saved " +
      "tensors (recompute) in the tables below, or type which ones. To compare with another " +
      "step, drop its graph file anywhere on the page or ", this.fileButton(), "."),
    h("form", { class: "line", on: { submit: (event) => this.add(event) } },
      this.kind, this.pattern, h("button", { type: "submit" }, "add")),
    this.list, this.problem, this.answer);
  }

  fileButton() {
    const input = h("input", { type: "file", accept: ".json", hidden: true, on: { change: () => {
      if (input.files[0]) this.app.openOther(input.files[0]);
      input.value = "";
    } } });
    return [h("button", { type: "button", class: "link", on: { click: () => input.click() } },
      "choose it"), input];
  }

  add(event) {
    event.preventDefault();
    const pattern = this.pattern.value.trim();
    if (pattern === "") {  // blanks alone are told as an empty field is
      this.pattern.value = "";
      this.pattern.reportValidity();
      return;
    }
    const change = { kind: this.kind.value, pattern };
    if (this.app.ask([...this.app.made, change])) this.pattern.value = "";
  }

  drop(index) {
    this.app.state.set({ changes: this.app.state.value.changes.filter((_, i) => i !== index) });
  }

  update() {
    const { app } = this;
    const { changes } = app.state.value;
    this.list.replaceChildren(...changes.map((change, i) => h("span", {
      class: includesChange(app.made, change) ? "chip" : "chip refused" },
    h("span", {}, changeText(change)),
    h("button", { type: "button", "aria-label": `take back: ${changeText(change)}`,
      on: { click: () => this.drop(i) } }, "×"))),
    changes.length > 0 ? link("take all back", () => app.state.set({ changes: [] })) : "",
    app.second && app.made.length === 0 ? link("take the second graph back", () =>
      app.closeOther()) : "");
    this.problem.textContent = app.problem;
    this.problem.hidden = app.problem === "";
    this.element.querySelector("h2").textContent = app.other && app.made.length === 0
      ? "Before and after" : "What if";
    if (this.shown === app.other) return;
    this.shown = app.other;
    app.changeEntries = [];
    this.answer.replaceChildren(...(app.other ? this.compare(app.made) : []));
    this.entries.draw();  // in the page, so that its head leaves out the bar for scrolling
  }

  compare(changes) {
    const { app } = this;
    const { model, other } = app;
    const all = changesOf(app);
    app.changeEntries = all;
    this.entries.show(groupsOf(all));
    const count = (kind) => all.filter((entry) => entry.kind === kind).length;
    const isWhatIf = changes.length > 0;
    return [h("div", { class: "pair" },
      h("div", {}, comparison(figures(model.graph, model.line), figures(other.graph, other.line),
        isWhatIf ? ["now", "then"] : ["before", "after"]),
      !isWhatIf && h("p", { class: "about", id: "compared-files" },
        `Before: ${app.fileNames()[0]}. After: ${app.fileNames()[1]}.`),
      (isFused(model.graph) || isFused(other.graph)) && h("p", { class: "about" },
        `Of the flops: ${fusedNote}.`),
      app.notes.map((note) => h("p", { class: "about note" }, note)),
      isWhatIf && h("p", { class: "about commands" }, "The same answer in a terminal: ",
        commands(changes, app.about.file).map((command, i) => [i > 0 ? " && " : "", h("code", {}, command)]))),
      h("div", {}, h("h3", {}, `What changed: ${Object.keys(signs).map((kind) =>
        `${formatCount(count(kind))} ${kind}`).join(", ")}`), this.entries.element))];
  }
}

export const changePanel = (app) => new ChangePanel(app);

function entryFacts(entry) {
  const line = (name, text) => fact(name, text || "-");
  return facts(entry.to ? line("moved to", entry.to) : [],
    entry.name ? line("value", entry.name) : [],
    entry.madeBy ? line("made by", entry.madeBy) : [],
    line("before", entry.before), line("after", entry.after),
    entry.slot ? line("bytes kept before", `${formatBytes(entry.bytesBefore)} ${each(entry)}`) : [],
    entry.slot ? line("bytes kept after", `${formatBytes(entry.bytesAfter)} ${each(entry)}`) : []);
}

/** What a change's entry tells in the details, with the way to what it was. */
export function changeDetails(app, entry) {
  const { slot, idBefore } = entry;
  const key = idBefore < 0 ? "" : slot ? app.keyOfSlot(idBefore) : `node:${idBefore}`;
  return [h("h3", {}, `${signs[entry.kind]} ${entry.kind}: ${entry.place}`), entryFacts(entry),
    key && h("p", {}, link(`show ${slot ? "what was kept" : "the operation"}`, () =>
      app.select(key)))];
}

/** The same of a row that stands for several entries, which has this key, with each of them. */
export function changesDetails(app, key) {
  const group = groupsOf(app.changeEntries).find((one) => one.key === key);
  if (!group) return null;
  const table = new Table({ label: "Each change", key: (entry) => `change:${entry.id}`, tallest: 16,
    open: (entry) => app.select(`change:${entry.id}`), columns: [
      { key: "place", title: "where", width: "minmax(80px, 1fr)", cell: ({ place }) => place }] });
  table.show(group.all);
  const many = timesText(group.all.length);
  return [h("h3", {}, `${signs[group.kind]} ${group.kind}: ${group.place}${many}`),
    entryFacts(group), h("h4", {}, "Each of them"), table.element];
}

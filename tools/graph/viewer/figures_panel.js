// The header's numbers, the three words, and what is wrong.
import { changeText, fusedNote, savers, shortLabel } from "./advice.js";
import { saversLink } from "./savers_details.js";
import { classOfChange, h, link } from "./dom.js";
import { bytesText, formatChange, formatCount, formatShare, formatUnits, plural, timesText }
  from "./format.js";
import { sumOf } from "./lists.js";
import { isRounded, stepText } from "./model.js";
import { liveStorages } from "./replay.js";
import { flopProducts } from "./products.js";
import { amountsInLetters, sharedSizes, sumInLetters } from "./sizes.js";

const theWords = [
  ["produced", "made in the forward pass"],
  ["saved", "kept for the backward pass"],
  ["live", "allocated at that moment"],
];

// A tape knows what was recorded on it: gradients and what an optimizer holds are no part of that.
function isUnknown({ line, summary }, key) {
  const seenByLedger = ["gradient_bytes", "optimizer_state_bytes"];
  return summary[key] === undefined ||
    (line === null && summary[key] === 0 && seenByLedger.includes(key));
}

// What a change does to a figure of the summary. What runs again in the backward pass is no part of
// the figure, and is of the change.
function changeOf({ model, other, otherName }, key, unit) {
  if (isUnknown(other, key)) return h("dd", { class: "then" }, `${otherName}: unknown`);
  const now = model.summary[key], then = other.summary[key];
  const again = key === "flops" ? other.allFlops - then : 0;
  const change = key === "flops" ? other.allFlops - model.allFlops : then - now;
  const both = again > 0 ? ` and ${formatCount(again)} again in the backward pass` : "";
  return h("dd", { class: "then", "data-then": then, "data-change": change },
    `${otherName}: ${formatCount(then)}`, unit ? ` (${formatUnits(then)})` : both, ", ",
    h("strong", { class: classOfChange(change) }, formatChange(change)));
}

function figure(app, name, key, { unit = true, large = false, notes = [] } = {}) {
  return h("div", { class: `figure${large ? " large" : ""}`, "data-figure": key },
    h("dt", {}, name), isUnknown(app.model, key) ? unknownFigure(app, key)
      : knownFigure(app, key, unit, notes));
}

function unknownFigure({ other, otherName }, key) {
  return [h("dd", { class: "value" }, "unknown"), other && !isUnknown(other, key) &&
      h("dd", { class: "then" }, `${otherName}: ${formatCount(other.summary[key])}`),
  h("dd", {}, "no ledger watched; take ", h("code", {}, "ledger.graph()"))];
}

function knownFigure(app, key, unit, notes) {
  const now = app.model.summary[key];
  return [h("dd", { class: "value", "data-value": now }, formatCount(now),
    unit && h("span", { class: "unit" }, now < 1024 ? " bytes" : ` bytes (${formatUnits(now)})`)),
  app.other && changeOf(app, key, unit), notes.filter(Boolean).map((note) => h("dd", {}, note))];
}

function savedNotes(app) {
  const { model, letters } = app;
  const { saved_activation_bytes: activations, saved_bytes: all } = model.summary;
  const own = model.kept.filter((row) => !row.anyway);
  return [`${plural(own.length, "tensor")} in memory of ${own.length === 1 ? "its" : "their"} own`,
    all > activations && `not counted: ${formatCount(all - activations)} bytes of parameters and ` +
      "inputs, which are kept too but exist anyway",
    inLetters(own, letters)];
}

const formulaNote = ({ formula, isFixed }) => formula && [h("span", { class: "formula" },
  `= ${formula}`), isFixed && " at these sizes"];

/** The bytes of rows {value, bytes} in the letters for sizes; "" where they have none. */
export const inLetters = (rows, letters) => formulaNote(sumInLetters(rows, letters));

// Storages, each with a value that fills it, where the graph has one.
function fillings(graph, ids) {
  const values = new Map();
  for (const value of graph.values)
    if (!values.has(value.storage) || value.offset === 0) values.set(value.storage, value);
  return ids.map((id) => ({ value: values.get(id), bytes: graph.storages[id].bytes }));
}

function peakNotes(app) {
  const { summary, graph, line } = app.model;
  if (summary.peak_step === undefined) return [];
  const live = [...fillings(graph, liveStorages(graph, line.peakEvents)),
    { bytes: line.unwatched }].filter(({ bytes }) => bytes > 0);
  return [link(`at ${stepText(graph, summary.peak_step)}`,
    () => app.select(`step:${summary.peak_step}`), { id: "peak-link" }),
    "parameters and all else included", inLetters(live, app.letters)];
}

const ofCategory = (graph, name) => graph.storages.flatMap(({ category }, id) =>
  (category === name ? [id] : []));

// The graph has no values of gradients and of optimizer state: where these are as many bytes as the
// parameters, one by one, or a multiple, they are of the same shapes.
function likeParameters(graph, ids) {
  const order = (a, b) => graph.storages[a].bytes - graph.storages[b].bytes;
  const parameters = ofCategory(graph, "parameter").sort(order);
  const times = ids.length / parameters.length, sorted = [...ids].sort(order);
  const bytes = (id) => graph.storages[id].bytes;
  const of = (i) => parameters[Math.floor(i / times)];
  if (!Number.isInteger(times) || !sorted.every((id, i) => bytes(id) === bytes(of(i)))) return [];
  return fillings(graph, sorted.map((_, i) => of(i)));
}

// Of a category whose storages are all live at once; else no formula of theirs is the figure's.
function categoryNotes({ model: { graph, summary }, letters }, category) {
  const rows = likeParameters(graph, ofCategory(graph, category));
  const sum = sumOf(rows, "bytes");
  return sum > 0 && sum === summary[`${category}_bytes`] ? [inLetters(rows, letters)] : [];
}

function operationNotes({ model: { summary } }) {
  const { donatable_inputs: count } = summary;
  return ["forward pass; recomputed ones are not counted",
    count > 0 && `${plural(count, "donatable input")}, whose memory the result could take`];
}

function flopNotes({ model: { graph }, letters }) {
  const rows = graph.nodes.flatMap((node) => (node.recomputed ? [] : flopProducts(graph, node)));
  return ["forward pass", formulaNote(amountsInLetters(rows, letters))];
}

function badge(kind, text, onClick) {
  if (!onClick) return h("span", { class: `badge ${kind}` }, text);
  return h("button", { type: "button", class: `badge ${kind}`, on: { click: onClick } }, text);
}

// `of`: " before" or " after" where two graphs are compared, else "".
function budgetBadges(budgets, of) {
  const found = (comparisons) => comparisons.filter(({ holds }) => !holds)
    .map(({ figure: one }) => formatCount(one)).join(", ");
  const list = budgets.filter(({ holds }) => !holds).map(({ text, comparisons, problem }) =>
    badge("bad", problem ? `budget not checked${of}: ${problem}`
      : `budget failed${of}: ${text} (found ${found(comparisons)})`));
  const met = budgets.length - list.length;
  return met > 0 ? [...list, badge("good", `${plural(met, "budget")} met${of}`)] : list;
}

const smallShare = 0.01;  // of the saved activations: below it no one need be alarmed

function lintBadge(findings, { summary }, of, onClick) {
  if (findings.length === 0) return [];
  const all = summary.saved_activation_bytes;
  const freed = sumOf(findings, "freed");
  return [badge(freed < smallShare * all ? "quiet" : "bad", `lint${of}: ` +
    `${plural(findings.length, "finding")}, ${bytesText(freed)}, ${formatShare(freed, all)} of ` +
    "what is saved", onClick)];
}

// The second graph's are known of the one that the page was written with.
function badges(app) {
  const { about, model, second } = app;
  const of = second ? " before" : "";
  const list = [...budgetBadges(about.budgets, of),
    ...lintBadge(about.findings, model, of, () =>
      document.getElementById("findings")?.scrollIntoView({ block: "center" }))];
  if (second && !app.isDropped) list.push(...budgetBadges(about.other_budgets, " after"),
    ...lintBadge(about.other_findings, second, " after"));
  const planned = model.graph.nodes.filter((node) => node.planned).length;
  if (planned > 0) list.push(badge("note", `planned, not proven: a real run refuses ` +
    `${plural(planned, "operation")} in bf16 or f16`));
  if (isRounded(model)) list.push(badge("note", "figures above 2^53 are rounded"));
  return list;
}

const mostAlike = 4;
const countWords = ["two", "three", "four", "five", "six", "seven", "eight", "nine"];

// Who keeps the most, and why: one, or several that keep as much. `name` makes an element, or text,
// of a group of savers().
function keepsMost(model, name) {
  const all = savers(model), total = model.summary.saved_activation_bytes;
  const first = all.filter(({ bytes }) => bytes === all[0].bytes), { length } = first;
  if (length === 0) return [];
  const bytes = bytesText(all[0].bytes), share = formatShare(all[0].bytes, total);
  if (length === 1) return ["the most is kept by ", name(first[0]),
    timesText(first[0].rows.length),
    `, ${bytes}, ${share}, for ${first[0].why}.`];
  const count = countWords[length - 2] ?? formatCount(length);
  return [`${count} kinds of tensors keep the most, each kind ${bytes} (${share} of all): `,
    first.slice(0, mostAlike).map((group, i) => [i > 0 ? "; " : "", name(group),
      ` (${plural(group.rows.length, "tensor")}), for ${group.why}`]),
    length > mostAlike ? "; and others." : "."];
}

// The answer for those who read one line: who keeps the most, why, and what would help the most; of
// two graphs, of each.
function inShort(app) {
  const most = keepsMost(app.model, (group) => saversLink(app, group));
  const title = (of) => h("strong", {}, `In short${app.second ? `, ${of}` : ""}: `);
  const line = most.length > 0 ? [title("before"), ...most.flat(Infinity), ...whatHelps(app)] : [];
  const after = app.second ? keepsMost(app.second, (group) => shortLabel(group.label)) : [];
  return after.length > 0 ? [...line, h("br"), title("after"), ...after.flat(Infinity)] : line;
}

function whatHelps(app) {
  if (!app.best) return [];
  const { change, now, then } = app.best;
  const key = then.peak_bytes < now.peak_bytes ? "peak_bytes" : "saved_activation_bytes";
  const extra = then.flops - now.flops, higher = then.peak_bytes - now.peak_bytes;
  return [" Of what was tried, ", link(changeText(change), () => app.ask([...app.made, change])),
  ` brings the ${key === "peak_bytes" ? "peak" : "saved bytes"} down the most, from ` +
    `${formatCount(now[key])} to `, h("span", { class: "less" }, formatCount(then[key])),
  `, for ${extra > 0 ? `${formatCount(extra)} flops more` : "no more recorded flops"}` +
    `${higher > 0 ? ` and a peak higher by ${formatCount(higher)}` : ""}` +
    `${change.kind === "fuse" ? ` (${fusedNote})` : ""}.`];
}

// How the formulas are to be read; "" without letters.
function lettersText({ letters, ambiguous }) {
  if (letters.length + ambiguous.length === 0) return "";
  const shared = sharedSizes(letters);
  return "Formulas: a letter stands wherever a dim has its size; other dims stay numbers, and " +
    `such a formula holds at these sizes alone.${shared.length > 0
      ? ` Sizes that two letters share stay numbers: ${shared.join(", ")}.` : ""}` +
    ambiguous.map(({ name, size, why }) =>
      ` ${name} is left out: ${formatCount(size)} is ${why}.`).join("");
}

export function figuresPanel(app) {
  const figures = h("dl", { class: "figures" }), marks = h("p", { class: "badges" });
  const short = h("p", { id: "in-short" });
  const legend = h("p", { class: "words" }, "Three words, never mixed: ",
    theWords.map(([word, meaning], i) =>
      [i > 0 ? ", " : "", h("strong", {}, word), ` = ${meaning}`]),
    ". Bytes are counted by distinct memory: what several operations keep counts once.");
  const letters = h("p", { class: "words", id: "letters-note" });
  const element = h("section", { id: "figures", class: "panel", "aria-label": "Figures" },
    figures, short, marks, legend, letters);
  const showBest = () => short.replaceChildren(...inShort(app));
  return { element, uses: [], showBest, update() {
    figures.replaceChildren(
      figure(app, "Saved activations", "saved_activation_bytes",
        { large: true, notes: savedNotes(app) }),
      figure(app, "Peak of live memory", "peak_bytes", { large: true, notes: peakNotes(app) }),
      figure(app, "Parameters", "parameter_bytes", { notes: categoryNotes(app, "parameter") }),
      figure(app, "Gradients", "gradient_bytes", { notes: categoryNotes(app, "gradient") }),
      figure(app, "Optimizer state", "optimizer_state_bytes",
        { notes: categoryNotes(app, "optimizer_state") }),
      figure(app, "Operations recorded", "operations", { unit: false,
        notes: operationNotes(app) }),
      figure(app, "Flops, forward", "flops", { unit: false, notes: flopNotes(app) }));
    showBest();
    marks.replaceChildren(...badges(app));
    marks.hidden = marks.childElementCount === 0;
    letters.textContent = lettersText(app);
  } };
}

// What the colours of the drawn tape tell, by choice. Every colour also stands in the legend and,
// on an operation, as a word or a number, so that no one need tell colours apart.
import { h } from "./dom.js";
import { bytesText, formatCount, words } from "./format.js";
import { sumOf } from "./lists.js";
import { copies, views } from "./operations.js";

// The operations of each kind. What gradient rules alone run is of the kind of the operation whose
// rule it is, or of what does the same.
const operations = {
  product: "matmul linear",
  elementwise: "abs accumulate add add_scalar clamp cos div div_scalar erf exp gelu leaky_relu log " +
    "logsigmoid maximum minimum mul mul_scalar neg pow pow_scalar reciprocal relu rsqrt sigmoid " +
    "silu sin softplus sqrt square sub tanh to",
  reduction: "amax amin cumsum layer_norm log_softmax logsumexp max mean min norm prod " +
    "products_of_others rms_norm softmax softmax_backward spread_to_ties std sum var",
  view: [...views, ...copies].join(" "),
  choice: "cat diagonal_backward embedding flip gather index_add index_select masked_fill repeat " +
    "scatter_add slice_backward stack tril triu where",
  loss: "binary_cross_entropy_with_logits cross_entropy mse_loss nll_loss smooth_l1_loss",
  random: "dropout",
  block: "checkpoint fused_attention",
};

const kindsByName = new Map(Object.entries(operations).flatMap(([kind, names]) =>
  names.split(" ").map((name) => [name, kind])));

/** The kind of an operation; "other" for those that are not the library's. */
export const kindOf = (operation) => kindsByName.get(operation) ?? "other";

const kinds = {
  product: "matrix product", elementwise: "elementwise", reduction: "sum, norm or softmax",
  view: "view or copy", choice: "choice by index or mask", loss: "loss", random: "random",
  block: "a block in one operation", other: "other",
};

const dtypes = ["f32", "f64", "bf16", "f16", "i64", "bool"];

// Shares of all saved activations.
const levels = [
  { name: "level-0", text: "nothing", most: 0 },
  { name: "level-1", text: "under 1 % of all that is saved", most: 0.01 },
  { name: "level-2", text: "under 5 %", most: 0.05 },
  { name: "level-3", text: "under 20 %", most: 0.2 },
  { name: "level-4", text: "20 % and more", most: Infinity },
];

/** The choices, the first of which is taken for what is none. */
export const colourings = [
  ["category", "category of what is saved"], ["bytes", "bytes saved"],
  ["kind", "kind of operation"], ["dtype", "dtype"],
];

/** Whether there is such a choice. */
export const isColouring = (name) => colourings.some(([known]) => known === name);

const isOne = (names) => new Set(names).size === 1;

// By choice: the name of a node's colour, of kept memory's, the word on a box, and the legend.
const rules = {
  category: { node: () => null, kept: ({ category }) => category, word: () => "",
    text: words, about: "" },
  kind: { node: ({ operation }) => kindOf(operation), word: (name) => name,
    text: (name) => kinds[name], about: "What is saved has the colour of what made it." },
  dtype: { node: ({ output }, graph) => graph.values[output].dtype, kept: (row) => row.value.dtype,
    word: (name) => name, text: (name) => name, about: "" },
};

/** Colours of one drawing: of its rows of operations and of what is saved between them. */
export class Colouring {
  constructor(name, { graph, summary }, { rows, storages }) {
    Object.assign(this, { graph, all: summary.saved_activation_bytes, used: new Set(),
      name: isColouring(name) ? name : colourings[0][0] });
    this.bytesOfRow = rows.map(() => 0);
    for (const { home, kept } of storages) if (!kept.anyway) this.bytesOfRow[home] += kept.bytes;
  }

  use(name) {
    if (name) this.used.add(name);
    return name;
  }

  level(bytes) {
    const found = levels.find(({ most }) => bytes <= most * this.all || bytes === 0);
    return this.use(found.name);
  }

  /** Shares {name, share} of the colours of a row, which is number i. */
  ofRow(row, i) {
    if (row.nodes.length === 0) return [];
    if (this.name === "bytes") return [{ name: this.level(this.bytesOfRow[i]), share: 1 }];
    const counts = new Map();
    for (const id of row.nodes) {
      const name = rules[this.name].node(this.graph.nodes[id], this.graph);
      if (name) counts.set(this.use(name), (counts.get(name) ?? 0) + 1);
    }
    return [...counts].map(([name, count]) => ({ name, share: count / row.nodes.length }));
  }

  /** The colour of what is saved, several pieces together when they have the same; else "". */
  ofKept(list) {
    if (this.name === "bytes") return this.level(sumOf(list, "bytes"));
    const names = list.map((row) => this.ofOne(row));
    return isOne(names) ? this.use(names[0]) : "";
  }

  ofOne(row) {
    const rule = rules[this.name];
    if (rule.kept) return rule.kept(row);
    const { producer } = row.value;
    return producer < 0 ? "" : rule.node(this.graph.nodes[producer], this.graph);
  }

  /** What the colour of a row of one operation says in words. */
  wordOf(row, i) {
    if (this.name === "bytes")
      return this.bytesOfRow[i] > 0 ? formatCount(this.bytesOfRow[i]) : "";
    return row.kind === "node"
      ? rules[this.name].word(rules[this.name].node(this.graph.nodes[row.nodes[0]], this.graph))
      : "";
  }

  /** What the colours that are used mean. */
  legend() {
    const order = { kind: Object.keys(kinds), dtype: dtypes,
      bytes: levels.map(({ name }) => name) }[this.name] ?? [];
    const names = [...new Set([...order, ...this.used])].filter((name) => this.used.has(name));
    const text = (name) => (this.name === "bytes" ? levels.find((level) => level.name === name).text
      : rules[this.name].text(name));
    const about = this.name === "bytes"
      ? `What an operation made that is saved, of ${bytesText(this.all)}.`
      : rules[this.name].about;
    return [names.map((name) => h("span", { class: "entry" },
      h("span", { class: `part-swatch part ${partClass(name)}` }), text(name))),
    about && h("span", { class: "quiet" }, about)];
  }
}

/** The class of a colour in the style sheet. */
export const partClass = (name) => (/^[a-z0-9_-]+$/.test(name) ? `part-${name}` : "part-other");

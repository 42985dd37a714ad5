// All that is known of what is selected, with links to its neighbours.
import { starred } from "./advice.js";
import { changeDetails, changesDetails } from "./change_panel.js";
import { swatch } from "./colours.js";
import { bar, fact, facts, h, link } from "./dom.js";
import { categories, describeAttribute, nodeLabel, slotLabel } from "./graph.js";
import { describe, formatBytes, formatCount, formatShare, plural, shapeText, words }
  from "./format.js";
import { heatMaps } from "./heat_maps.js";
import { keysHelp } from "./keyboard.js";
import { makerOf } from "./maker.js";
import { maskOfNode } from "./mask_grid.js";
import { stepText } from "./model.js";
import { isWithin } from "./module_tree.js";
import { changeBox, patternsOf } from "./modules_panel.js";
import { Preview } from "./preview.js";
import { liveStorages } from "./replay.js";
import { recomputeBox } from "./saved_panel.js";
import { saversDetails } from "./savers_details.js";
import { bytesInLetters, shapeInLetters } from "./sizes.js";
import { Table, lines } from "./table.js";

const most = 12;

// A list of what is made of each, cut where it gets long.
function list(all, make, attributes = {}) {
  const shown = all.slice(0, most).map((one, i) => h("li", {}, make(one, i)));
  const more = all.length - most;
  return h("ul", attributes, shown, more > 0 && h("li", {}, `and ${formatCount(more)} more`));
}

// The same of what is saved, each with a reason.
const reasonsList = (all, make) => list(all, make, { class: "savers" });

class Details {
  constructor(app) {
    this.app = app;
    this.uses = ["select", "changes"];
    this.body = h("div", { class: "details-body", "aria-live": "polite" });
    this.preview = new Preview(this);
    this.close = h("button", { type: "button", class: "small", "aria-label": "close (Esc)",
      on: { click: () => app.select("") } }, "close");
    this.element = h("aside", { id: "details", class: "panel", "aria-label": "Details" },
    h("div", { class: "line" }, h("h2", {}, "Details"), this.preview.note,
      h("span", { class: "space" }),
      h("button", { type: "button", class: "small", "aria-label": "back",
        on: { click: () => history.back() } }, "←"),
      h("button", { type: "button", class: "small", "aria-label": "forward",
        on: { click: () => history.forward() } }, "→"), this.close), this.body,
    this.preview.body);
  }

  get model() { return this.app.model; }
  get graph() { return this.app.model.graph; }
  get selected() { return this.app.state.value.select; }

  update() {
    this.preview.end();
    this.close.hidden = this.selected === "";
    if (this.selected !== this.wasSelected) this.element.scrollTop = 0;
    this.wasSelected = this.selected;
    this.body.replaceChildren(...this.contents(this.selected) ?? [this.unknown(), ...this.help()]
      .filter(Boolean));
  }

  // An address may have been copied from the page of another graph.
  unknown() {
    return this.selected !== "" && h("p", { class: "problem", role: "alert" },
      `The page has nothing that is called "${this.selected}".`);
  }

  /** What is known of a key, as elements; null when it names nothing. */
  contents(key) {
    const at = key.indexOf(":");
    return this.show(key.slice(0, at), key.slice(at + 1))?.flat(Infinity).filter(Boolean) ?? null;
  }

  show(kind, id) {
    const row = Number(id);
    if (kind === "module" || kind === "own") return this.module(id);
    if (kind === "savers") return saversDetails(this.app, id);
    if (kind === "changes") return changesDetails(this.app, `changes:${id}`);
    if (kind === "change") {
      const entry = this.app.changeEntries.find((one) => one.id === id);
      return entry && changeDetails(this.app, entry);
    }
    if (!Number.isInteger(row) || row < 0 || id === "") return null;
    if (kind === "storage" && this.graph.storages[row]) return this.storage(row);
    if (kind === "packing" && this.graph.packings[row]) return this.packing(row);
    if (kind === "node" && this.graph.nodes[row]) return this.node(row);
    if (kind === "step" && this.graph.steps[row]) return this.step(row);
    return null;
  }

  help() {
    return [h("p", {}, "Click a module, a tensor, a step of the timeline or a box of the tape: " +
      "what is known of it stands here. Rows and boxes show it under the pointer, or where the " +
      "keys are, too."),
    keysHelp(),
    h("p", {}, "The address of this page holds the selection, the filters and the changes: copy " +
      "it to show someone the same view.")];
  }

  // ---- links ----

  nodeLink(id) {
    return link(nodeLabel(this.graph, id), () => this.app.select(`node:${id}`));
  }
  storageLink(id, text) {
    return link(text ?? `storage ${id}`, () => this.app.select(`storage:${id}`));
  }
  stepLink(id) {
    if (id < 0) return "not seen";
    return link(stepText(this.graph, id), () => this.app.select(`step:${id}`));
  }

  // ---- memory ----

  storage(id) {
    const storage = this.graph.storages[id], kept = this.model.keptByKey.get(`storage:${id}`);
    const values = this.graph.values.filter((value) => value.storage === id);
    const formula = kept && bytesInLetters(kept.value, kept.bytes, this.app.letters);
    const name = values.find((value) => value.name)?.name;
    return [h("h3", {}, name || kept?.what || `storage ${id}`),
      facts(fact("bytes", formatBytes(storage.bytes)),
        formula && fact("formula", h("span", { class: "formula" }, `${formula} bytes`)),
        fact("category", swatch(storage.category), ` ${words(storage.category)}`),
        fact("asked for by", storage.operation || "unknown"), fact("id", `storage ${id}`)),
      kept ? this.keptBy(kept) : [h("h4", {}, "Not saved"), h("p", {}, this.model.why[id])],
      this.maskIn(kept), this.views(values), this.life(id), this.lint(`storage:${id}`)];
  }

  packing(id) {
    const { how, bytes } = this.graph.packings[id];
    const kept = this.model.keptByKey.get(`packing:${id}`);
    return [h("h3", {}, kept?.what ?? `packing ${id}`),
      facts(fact("packed as", how), fact("bytes", formatBytes(bytes))),
      kept && this.keptBy(kept), this.lint(`packing:${id}`)];
  }

  keptBy(kept) {
    const slots = kept.slots.map((slot) => this.graph.saved[slot]);
    const maker = makerOf(this.graph, slots[0].value), box = recomputeBox(this.app, kept);
    return [h("h4", {}, `Kept by ${plural(slots.length, "slot")}, and why`),
      reasonsList(slots, (slot) => [link(slotLabel(this.graph, slot), () =>
        this.app.select(`node:${slot.node}`)), h("div", { class: "why" }, slot.reason)]),
      maker && h("p", {}, "made by ", link(kept.made, () =>
        this.app.select(`node:${maker.node}`))),
      box && h("p", {}, h("label", {}, box, " what if it were recomputed where it is read?"))];
  }

  // What the mask of an attention hides, where that is what is kept.
  maskIn(kept) {
    const names = new Set(["mask", "hidden"]);
    const slot = kept?.slots.find((one) => names.has(this.graph.saved[one].slot));
    return slot === undefined ? [] : maskOfNode(this.app, this.graph.saved[slot].node);
  }

  views(values) {
    const letters = (value) => shapeInLetters(value.shape, this.app.letters);
    const whole = (value) => [describe(value), letters(value) &&
      h("span", { class: "formula" }, ` ${letters(value)}`),
    `, strides ${shapeText(value.strides)}, offset ${formatCount(value.offset)}`,
    value.producer >= 0 ? [", of ", this.nodeLink(value.producer)] : value.name
      ? `, ${value.name}` : ""];
    if (values.length === 0) return [];
    return [h("h4", {}, `Shown by ${plural(values.length, "value")}`), list(values, whole)];
  }

  life(id) {
    const { born, lastNeeded, freed } = this.model.lives[id];
    if (!this.model.line) return [];
    const lag = freed > lastNeeded && lastNeeded >= 0 ? freed - lastNeeded : 0;
    return [h("h4", {}, "Life"), facts(
      fact("born", born < 0 ? "before the first step" : this.stepLink(born)),
      fact("last needed", lastNeeded < 0 ? "by no recorded operation" : this.stepLink(lastNeeded)),
      fact("freed", freed < 0 ? "not while it was watched" : this.stepLink(freed)),
      lag > 0 && fact("held longer", `${plural(lag, "step")} after it was last needed`))];
  }

  lint(key) {
    const found = this.app.about.findings.filter(({ slot }) => this.app.keyOfSlot(slot) === key);
    if (found.length === 0) return [];
    return [h("h4", {}, "The lint says"), h("ul", {}, found.map(({ rule, freed, mending }) =>
      h("li", {}, h("strong", {}, rule), `, frees ${formatBytes(freed)}: ${mending}`)))];
  }

  // ---- operations ----

  node(id) {
    const { graph } = this, node = graph.nodes[id];
    const value = (which, i) => {
      const row = graph.values[which];
      return [row.name ? `${row.name}: ` : "", this.storageLink(row.storage, describe(row)),
        row.producer >= 0 && row.producer !== id ? [", of ", this.nodeLink(row.producer)]
          : row.leaf ? ", a leaf" : row.producer < 0 ? ", a constant" : "",
        node.donatable.includes(i) && ", donatable: nobody else needs it any more"];
    };
    const readers = graph.nodes.flatMap((other, i) =>
      (other.inputs.includes(node.output) && !other.recomputed ? [i] : []));
    const slots = this.model.slotsOfNode[id];
    return [h("h3", {}, nodeLabel(graph, id)),
      facts(node.module && fact("module", link(node.module, () =>
        this.app.select(`module:${node.module}`))),
      node.attributes.length > 0 &&
        fact("attributes", node.attributes.map(describeAttribute).join(", ")),
      fact("flops", formatCount(node.flops)),
      node.planned && fact("planned", "not proven by a run"),
      node.recomputed && fact("recomputed", "within a rule"), fact("id", `node ${id}`)),
      h("h4", {}, "Reads"), list(node.inputs, value), h("h4", {}, "Makes"),
      list([node.output], (output) => value(output)), h("h4", {}, "Read by"), readers.length > 0
        ? list(readers, (reader) => this.nodeLink(reader)) : h("p", {}, "no operation"),
      h("h4", {}, `Saves ${plural(slots.length, "slot")}`),
      h("ul", { class: "savers" }, slots.map((slot) => h("li", {},
        link(`${slot.slot}: ${describe(graph.values[slot.value])}`, () =>
          this.app.select(this.app.keyOfSlot(graph.saved.indexOf(slot)))),
        h("div", { class: "why" }, slot.reason)))), maskOfNode(this.app, id), this.stepsOf(id),
      this.compared(id)];
  }

  // What the second graph makes of an operation and of what it saves.
  compared(id) {
    const { other, otherName, changeEntries } = this.app;
    if (!other) return [];
    const found = changeEntries.filter(({ slot, idBefore }) => idBefore >= 0 &&
      (slot ? this.graph.saved[idBefore].node : idBefore) === id);
    return [h("h4", {}, otherName === "then" ? "With the change" : "In the second graph"),
      found.length === 0 ? h("p", {}, "It is as here.") : h("ul", {}, found.map((entry) =>
        h("li", {}, link(`${entry.kind}: ${entry.place}`, () =>
          this.app.select(`change:${entry.id}`)), h("div", { class: "why" }, entry.after))))];
  }

  stepsOf(id) {
    const steps = this.graph.steps.flatMap((step, i) => (step.node === id ? [i] : []));
    if (steps.length === 0) return [];
    return [h("h4", {}, "Steps"), list(steps, (i) => this.stepLink(i))];
  }

  // ---- modules ----

  module(path) {
    const found = this.app.findModule(path);
    if (!found) return null;
    const { model } = this;
    const total = model.summary.saved_activation_bytes;
    const inside = (module) => found.paths.some((one) => one === "" || isWithin(module, one));
    const kept = model.kept.filter((row) => !row.anyway && row.modules.some(inside))
      .sort((a, b) => b.bytes - a.bytes);
    const patterns = patternsOf(this.graph, found.paths);
    const { own, below } = heatMaps(this.app.attention, found.paths[0]);
    return [h("h3", {}, path || "(root)"),
      facts(fact("operations", formatCount(found.operations)),
        fact("saved activations", `${formatBytes(found.activations)}, ` +
          `${formatShare(found.activations, total)} of all`),
        found.shared > 0 && fact("shared with others", formatBytes(found.shared)),
        found.others > 0 && fact("parameters, inputs", `${formatBytes(found.others)} kept too`),
        fact("flops", formatCount(found.flops)),
        found.highest > 0 && fact("live at most", formatBytes(found.highest)),
        found.highest > 0 && fact("transient at most", formatBytes(found.transient))),
      own,
      path && h("p", {}, h("label", {}, changeBox(this.app, "checkpoint", patterns,
        `checkpoint ${path}`, found.paths),
      ` what if ${patterns.length === 1 ? patterns[0] : path} were a checkpoint?`)),
      path && h("p", {}, link("show it on the tape", () => this.app.openOnTape(found.paths[0]))),
      path && found.paths.length > 1 ? h("p", { class: "about" },
        `Sums over ${formatCount(found.paths.length)} modules: ${starred(found.paths[0])}`) : null,
      h("h4", {}, "Keeps the most"), reasonsList(kept, (row) => [link(row.savers[0], () =>
        this.app.select(row.key)), ` ${formatBytes(row.bytes)}`,
      h("div", { class: "why" }, row.why)]), below];
  }

  // ---- steps ----

  step(index) {
    const { graph, model } = this, { line } = model;
    const { module, node } = graph.steps[index];
    const highest = line.highest[index], bytes = line.atHighest[index];
    return [h("h3", {}, `${stepText(graph, index)}${index === line.peakStep ? ": the peak" : ""}`),
      facts(fact("live at most", h("span", { id: "step-live" }, formatBytes(highest))),
        node >= 0 && fact("operation", this.nodeLink(node)),
        module && graph.steps[index].phase !== "update" && model.byPath.has(module) &&
          fact("module", link(module, () => this.app.select(`module:${module}`)))),
      h("table", { class: "plain" }, h("tbody", {}, categories.map((category, i) => bytes[i] > 0 &&
        h("tr", {}, h("td", { class: "category" }, swatch(category), ` ${words(category)}`),
          h("td", { class: "right number" }, formatCount(bytes[i])),
          h("td", { class: "share" }, bar(bytes[i], highest)))),
      line.unwatched > 0 && h("tr", {}, h("td", {}, "live before, met by no operation"),
        h("td", { class: "right number" }, formatCount(line.unwatched)), h("td")))),
      h("h4", {}, "Live there, the largest first, and why"), this.live(line.lastEvent[index])];
  }

  live(events) {
    const { graph, why } = this.model;
    const table = new Table({ label: "Live storages", key: (id) => `storage:${id}`, tallest: 12,
      height: 44, open: (id) => this.app.select(`storage:${id}`), columns: [
        { key: "bytes", title: "bytes", width: "94px", right: true, cell: (id) =>
          lines(formatCount(graph.storages[id].bytes), words(graph.storages[id].category)) },
        { key: "why", title: "why", width: "minmax(80px, 1fr)", cell: (id) =>
          h("div", { class: "two-lines" }, why[id]) }] });
    const ids = liveStorages(graph, events);
    table.element.id = "live";
    table.show(ids);
    setTimeout(() => table.draw());
    return table.element;
  }
}

export const detailsPanel = (app) => new Details(app);

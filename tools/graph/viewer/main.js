// Reads the data of the page and puts the panels together.
import { changeText } from "./advice.js";
import { advicePanel } from "./advice_panel.js";
import { attentionPanel } from "./attention_panel.js";
import { changePanel } from "./change_panel.js";
import { detailsPanel } from "./details_panel.js";
import { h, link } from "./dom.js";
import { figuresPanel } from "./figures_panel.js";
import { fitLabel, formatKnown, straight } from "./format.js";
import { readGraph } from "./graph.js";
import { listenToKeys } from "./keyboard.js";
import { makeModel } from "./model.js";
import { folded, pathsTo } from "./module_tree.js";
import { modulesPanel } from "./modules_panel.js";
import { isFilter, isOrder, savedPanel } from "./saved_panel.js";
import { parseSizes, unusedSizes } from "./sizes.js";
import { ambiguousLetters } from "./size_roles.js";
import { State, parametersIn, unknownNames } from "./state.js";
import { isColouring } from "./tape_colours.js";
import { tapePanel } from "./tape_panel.js";
import { timelinePanel } from "./timeline_panel.js";
import { answeredInPart } from "./whatif.js";

const data = (id) => document.getElementById(id)?.textContent;

const sizesText = (sizes) =>
  Object.entries(sizes).map(([name, size]) => `${name}=${size}`).join(" ");

// What the page's address asks for and the page does not know, as of modules that are none.
function unknownIn(hash, { model, second }) {
  const isModule = (path) => model.byPath.has(path) || (second?.byPath.has(path) ?? false);
  const isSpan = (text) => {
    const [from, to] = text.split("-").map(Number);
    return from < to && to <= model.graph.steps.length;
  };
  const rules = { sort: isOrder, tape: isModule, only: isFilter, range: isSpan,
    colour: isColouring };
  const parts = Object.entries(rules).flatMap(([name, isKnown]) => parametersIn(hash).getAll(name)
    .filter((text) => !isKnown(text)).map((text) => `${name}=${fitLabel(text, 60)}`));
  return [...unknownNames(hash), ...parts];
}

const refusals = (refused) => refused.map(({ why }) =>
  `This change cannot be made: ${why}.`).join(" ");

// What every panel is given: the graph's model, what it is compared with, and the state. A panel
// has an element, a list `uses` of the parts of the state that it shows, and update().
class App {
  constructor() {
    this.about = JSON.parse(data("about"));
    this.attention = JSON.parse(data("attention") ?? "null");
    this.model = makeModel(readGraph(data("graph")));
    const second = data("other");
    this.second = second ? makeModel(readGraph(second)) : null;
    this.secondName = this.about.other_file;
    this.isDropped = false;  // the second graph, onto the page that was written without it
    this.problem = "";
    this.notes = [];  // on the changes
    this.made = [];  // of the changes, those that can be made
    this.best = null;  // of the changes that were tried
    this.changeEntries = [];
    this.shown = new Map();
    this.unread = new Set(this.about.findings.filter(({ rule }) => rule === "unread")
      .map(({ slot }) => this.keyOfSlot(slot)));
    this.address = unknownIn(location.hash, this);
    this.state = new State({ sizes: sizesText(this.about.sizes) }, () => this.update());
    addEventListener("hashchange", () => {
      this.address = unknownIn(location.hash, this);
      this.showStrip();
    });
    this.compare();
  }

  start() {
    const body = document.getElementById("page");
    this.panels = [figuresPanel, timelinePanel, advicePanel, changePanel, modulesPanel, savedPanel,
      tapePanel, attentionPanel, detailsPanel].map((make) => make(this));
    const [...elements] = this.panels.map(({ element }) => element);
    const details = elements.pop(), header = this.header();
    body.replaceChildren(header, h("main", {}, elements), details);
    // What stays in sight below the header stands below all of its lines.
    new ResizeObserver(() => document.documentElement.style.setProperty("--header",
      `${header.offsetHeight}px`)).observe(header);
    listenToKeys(this);
    // Drawings take their colours and their widths when they are drawn.
    const drawAgain = () => {
      this.shown.clear();
      this.update();
    };
    let waiting = 0;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAgain);
    addEventListener("resize", () => {
      clearTimeout(waiting);
      waiting = setTimeout(drawAgain, 100);
    });
    this.listenToFiles();
    this.update();
    document.documentElement.dataset.ready = "yes";
    performance.mark("ready");
  }

  header() {
    const title = straight(this.about.title);
    document.title = `${title || "Tape"} - tape viewer`;
    this.strip = h("p", { id: "strip", role: "status" });
    this.letterBox = h("input", { id: "sizes", type: "text", spellcheck: "false",
      placeholder: "none; type B=8 T=112",
      on: { change: () => this.state.set({ sizes: this.letterBox.value }) } });
    this.letterMessage = h("span", { id: "sizes-problem", class: "problem", role: "alert" });
    this.message = h("p", { id: "message", class: "problem", role: "alert" });
    const jump = (id, text) => h("button", { type: "button", class: "link", on: { click: () =>
      document.getElementById(id).scrollIntoView({ block: "start" }) } }, text);
    return h("header", {}, h("h1", { title }, title || "Tape"),
      h("nav", { "aria-label": "Panels" }, jump("timeline", "live memory"),
        jump("advice", "who, why, what to do"), jump("change", "what if"),
        jump("modules", "modules"), jump("saved", "saved tensors"), jump("tape", "tape"), jump("attention", "attention")),
      h("label", { class: "sizes" }, "letters for sizes ", this.letterBox),
      this.letterMessage, this.strip, this.message);
  }

  // What is compared, or why it cannot be, in sight wherever the page stands.
  showStrip() {
    const unknown = this.address.length === 0 ? "" : "The address asks for what the page does not " +
      `know, and that is left out: ${this.address.map(straight).join(", ")}.`;
    const problems = [this.problem, unknown].filter(Boolean).join(" ");
    this.message.replaceChildren(`${problems} `, link("dismiss", () => this.dismiss()));
    this.message.hidden = problems === "";
    const { model, other, made } = this;
    this.strip.hidden = other === null;
    if (other === null) return;
    const figure = (name, key) => ` ${name} ${formatKnown(model.summary[key])} → ` +
      `${formatKnown(other.summary[key])} bytes.`;
    this.strip.replaceChildren(h("strong", {}, made.length > 0
      ? `What if: ${made.map(changeText).join(", ")}.`
      : `Before: ${this.fileNames()[0]}, after: ${this.fileNames()[1]}.`),
    figure("Saved", "saved_activation_bytes"), figure("Peak", "peak_bytes"), " ",
    link("take back", () => (made.length > 0 ? this.state.set({ changes: [] })
      : this.closeOther())));
  }

  // ---- what is compared ----

  compare() {
    const { changes } = this.state.value;
    const key = JSON.stringify(changes);
    if (key === this.comparedChanges && this.comparedSecond === this.second) return;
    this.comparedChanges = key;
    this.comparedSecond = this.second;
    this.problem = "";
    this.other = this.second;
    this.otherName = "after";
    const { graph, notes, made, refused } = this.answer(changes);
    Object.assign(this, { notes, made, problem: refusals(refused) });
    if (made.length === 0) return;
    this.other = makeModel(graph);
    this.otherName = "then";
  }

  // What these changes make of the graph: not twice where they are asked for, and then made.
  answer(changes) {
    const key = JSON.stringify(changes);
    if (this.answered?.key !== key)
      this.answered = { key, ...answeredInPart(this.model.graph, changes) };
    return this.answered;
  }

  /** Makes these changes; where one of them cannot be made, tells why and leaves all as it is. */
  ask(changes) {
    const { refused } = this.answer(changes);
    if (refused.length === 0) {
      this.state.set({ changes });
      return true;
    }
    this.problem = refusals(refused);
    this.shown.clear();  // a box that was ticked is drawn as it was
    this.update();
    return false;
  }

  async openOther(file) {
    try {
      this.second = makeModel(readGraph(await file.text(), Number.MAX_SAFE_INTEGER));
      this.secondName = file.name;
      this.isDropped = true;
      this.state.set({ changes: [] });
    } catch (error) {
      this.problem = `${file.name} cannot be compared: ${error.message}`;
      this.update();
    }
  }

  /** Of the two graphs that are compared, before and after. */
  fileNames() {
    return [this.about.file, this.secondName || "the second graph"].map((name) =>
      straight(fitLabel(name, 60)));
  }

  /** Ends the comparison with a second graph. */
  closeOther() {
    this.second = null;
    this.update();
  }

  dismiss() {
    this.problem = "";
    this.address = [];
    this.update();
  }

  listenToFiles() {
    addEventListener("dragover", (event) => event.preventDefault());
    addEventListener("drop", (event) => {
      event.preventDefault();
      if (event.dataTransfer.files[0]) this.openOther(event.dataTransfer.files[0]);
    });
  }

  // ---- what panels ask ----

  /** Takes the best of the changes that were tried, or null. */
  foundBest(best) {
    this.best = best;
    for (const panel of this.panels) panel.showBest?.();
  }

  select(key) { this.state.set({ select: key }); }

  keyOfSlot(index) {
    const slot = this.model.graph.saved[index];
    return slot.packing >= 0 ? `packing:${slot.packing}`
      : `storage:${this.model.graph.values[slot.value].storage}`;
  }

  /** A module, or several folded together, by the path of its row. */
  findModule(path) {
    const known = this.model.byPath.get(path);
    if (known) return known;
    const find = (module) => (module.path === path ? module
      : module.children.map(find).find(Boolean));
    return find(folded(this.model.tree, new Set(this.state.value.unfolded)));
  }

  /** Opens the modules above a path on the tape, and shows it. */
  openOnTape(path) {
    const above = pathsTo(path).slice(0, -1);
    this.state.set({ tape: [...new Set([...this.state.value.tape, ...above])] });
    document.getElementById("tape").scrollIntoView({ block: "start" });
  }

  update() {
    this.compare();
    const { sizes } = this.state.value;
    if (sizes !== this.sizesText) {
      this.sizesText = sizes;
      const { letters, problem } = parseSizes(sizes);
      const graphs = [this.model, this.second].filter(Boolean).map(({ graph }) => graph);
      this.ambiguous = ambiguousLetters(letters, graphs);
      this.letters = letters.filter(({ name }) =>
        this.ambiguous.every((letter) => letter.name !== name));
      this.letterBox.value = sizes;
      this.letterBox.setAttribute("aria-invalid", problem !== "");
      this.letterMessage.textContent = [problem, ...unusedSizes(letters, graphs)]
        .filter(Boolean).join("; ");
    }
    if (!this.panels) return;
    this.showStrip();
    for (const panel of this.panels) this.updatePanel(panel);
  }

  // A panel is drawn anew when something that it shows has changed.
  updatePanel(panel) {
    const shown = [this.other, this.problem, this.letters,
      ...panel.uses.map((name) => this.state.value[name])];
    const before = this.shown.get(panel);
    if (before && shown.every((value, i) => value === before[i])) return;
    this.shown.set(panel, shown);
    panel.update();
  }
}

try {
  new App().start();
} catch (error) {
  document.getElementById("page").replaceChildren(h("p", { class: "problem", role: "alert" },
    `The page cannot show its graph: ${error.message}`));
  throw error;
}

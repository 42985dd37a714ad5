// The modules as a tree of sums, down to their operations.
import { starred } from "./advice.js";
import { classOfChange, h, panel, shareBar } from "./dom.js";
import { existsAnyway, operationLabel, storagesOfSlots } from "./graph.js";
import { formatChange, formatCount, timesText } from "./format.js";
import { orderOf } from "./lists.js";
import { folded, hasSameSums, ownSum } from "./module_tree.js";
import { findRegions } from "./regions.js";
import { Table, byteLines } from "./table.js";
import { includesChange } from "./whatif.js";

// ---- what-if -----------------------------------------------------------------------------------

/** The patterns that match these modules and no others: one, where there is one. */
export function patternsOf(graph, paths) {
  if (paths.length === 1) return paths;
  const pattern = starred(paths[0]);
  try {
    const found = new Set(findRegions(graph, pattern).map((region) => region.path));
    if (found.size === paths.length && paths.every((path) => found.has(path))) return [pattern];
  } catch {
    // No module matches: then each is named.
  }
  return paths;
}

/**
 * A box that makes the changes, or takes them back. `names`: what the patterns stand for, one by
 * one; the box is undecided where only some of it is changed.
 */
export function changeBox(app, kind, patterns, label, names = patterns) {
  const changes = app.made;
  const isMade = (pattern) => includesChange(changes, { kind, pattern });
  const checked = patterns.every(isMade) || names.every(isMade);
  const toggle = () => {
    const rest = changes.filter((one) => one.kind !== kind ||
      ![...patterns, ...names].includes(one.pattern));
    if (checked) app.state.set({ changes: rest });
    else app.ask([...rest, ...patterns.map((pattern) => ({ kind, pattern }))]);
  };
  const box = h("input", { type: "checkbox", "aria-label": label, title: label,
    on: { change: toggle } });
  box.checked = checked;
  box.indeterminate = !checked && [...patterns, ...names].some(isMade);
  return box;
}

// ---- rows --------------------------------------------------------------------------------------

// What one operation of each module of a row keeps: alone, and together with others.
function operationRow(model, nodes, depth) {
  const { graph, keepers } = model;
  const row = { kind: "node", key: `node:${nodes[0]}`, depth, operations: nodes.length,
    name: operationLabel(graph, nodes[0]), repeats: nodes.length, activations: 0, shared: 0,
    others: 0, highest: 0, transient: 0 };
  for (const node of nodes) {
    for (const id of storagesOfSlots(graph, model.slotsOfNode[node])) {
      const alone = keepers.ofStorage[id].every((slot) => graph.saved[slot].node === node);
      const sum = existsAnyway(graph.storages[id]) ? "others" : alone ? "activations" : "shared";
      row[sum] += graph.storages[id].bytes;
    }
  }
  return row;
}

class Rows {
  constructor(app) {
    this.app = app;
    this.model = app.model;
    this.rows = [];
    const { toggled, unfolded } = app.state.value;
    this.toggled = new Set(toggled);
    const tree = folded(this.model.tree, new Set(unfolded));
    this.own(tree, "(root)", "", 0);
    this.children(tree, 0);
    if (this.rows.length > 1) this.rows.push({ ...this.model.tree, kind: "module", name: "total",
      key: "module:", depth: 0, isOpen: false, canOpen: false });
  }

  // Two levels are open until the user says otherwise; operations are asked for.
  isOpen(module, depth) {
    return (module.children.length > 0 && depth < 2) !== this.toggled.has(module.path);
  }

  // What lies in none of the module's children. Its operations are shown where the module was
  // unfolded by hand.
  own(module, name, fold, depth) {
    const isAsked = fold !== module.path && this.toggled.has(module.path);
    const own = { ...module, kind: "own", name, fold, key: `own:${module.path}`, repeats: 1, depth,
      isOpen: isAsked !== this.toggled.has(fold), canOpen: module.nodes.length > 0 };
    for (const sum of ["operations", "activations", "others", "flops"])
      own[sum] = ownSum(module, sum);
    if (own.operations + own.activations + own.others === 0) return;
    this.rows.push(own);
    if (own.isOpen) this.nodes(own, depth + 1);
  }

  children(module, depth) {
    const children = [...module.children].sort(comparisonOf(this.app.state.value.modules));
    for (const child of children) this.module(child, "", depth);
  }

  // A module that adds nothing to its only child shares that child's line.
  module(module, prefix, depth) {
    const name = prefix + module.name, [only] = module.children;
    if (module.repeats === 1 && module.children.length === 1 && hasSameSums(module, only)) {
      this.module(only, `${name}.`, depth);
      return;
    }
    const isOpen = this.isOpen(module, depth);
    this.rows.push({ ...module, kind: "module", key: `module:${module.path}`, name, depth, isOpen,
      fold: module.path, canOpen: module.children.length + module.nodes.length > 0 });
    if (!isOpen) return;
    if (module.children.length === 0) this.nodes(module, depth + 1);
    else this.own(module, "(own)", `own:${module.path}`, depth + 1);
    this.children(module, depth + 1);
  }

  nodes(module, depth) {
    const copies = module.paths.length, count = module.nodes.length / copies;
    for (let i = 0; i < count; ++i) {
      const alike = module.nodes.filter((_, k) => k % count === i);
      this.rows.push(operationRow(this.model, alike, depth));
    }
  }
}

function comparisonOf(order) {
  if (order === "") return () => 0;
  const { key, sign } = orderOf(order);
  return (a, b) => sign * (key === "name" ? a.path.localeCompare(b.path, "en") : a[key] - b[key]);
}

const wide = 960;  // pixels from which on there is room for every column

// ---- the panel ---------------------------------------------------------------------------------

class ModulesPanel {
  constructor(app) {
    this.app = app;
    this.uses = ["toggled", "unfolded", "modules", "changes", "select"];
    this.table = new Table({ label: "Modules", columns: [], key: (row) => row.key, tallest: 15,
      height: 38,
      open: (row) => app.select(row.key),
      sort: (key) => app.state.set({ modules: key === app.state.value.modules ? "" : key }) });
    this.about = h("span");
    this.element = panel("modules", "Modules", this.about, this.table.element);
  }

  // How its rows and the columns that it has are to be read.
  tell(columns) {
    const has = (key) => columns.some((column) => column.key === key);
    this.about.textContent = "A row counts the module and all below it. What several modules " +
      "keep counts once, in the row of the module that encloses them all" +
      `${has("shared") ? "; \"shared\" repeats it, uncounted, in each row below that keeps some " +
        "of it, once for each module of the row" : ""}. Modules that are alike but for their number stand as one row with the sum.` +
      `${has("highest") ? " \"live at most\" is the most memory that was live while one of them " +
        "ran, forward or backward." : ""}${has("transient") ? " \"transient at most\" is the " +
        "same for memory that comes and goes." : ""} "(own)" is what lies in no module below, or ` +
      "in several.";
  }

  nameCell(row) {
    const cell = h("span", { class: "name" });
    cell.style.paddingLeft = `${16 * Math.min(row.depth, 8)}px`;
    if (row.canOpen) cell.append(h("button", { type: "button", class: "fold",
      "aria-label": `${row.isOpen ? "fold" : "unfold"} ${row.name}`, "aria-expanded": row.isOpen,
      on: { click: () => this.app.state.toggle("toggled", row.fold) } },
    row.isOpen ? "▾" : "▸"));
    else if (row.kind !== "node") cell.append(h("span", { class: "no-fold" }));
    cell.append(h("span", { class: row.kind === "node" ? "operation" : "" }, row.name));
    if (row.repeats > 1) cell.append(row.kind === "node" ? timesText(row.repeats)
      : h("button", { type: "button", class: "repeats", title: "show them one by one",
        on: { click: () => this.app.state.toggle("unfolded", row.path) } }, `× ${row.repeats}`));
    if (row.run) cell.append(h("button", { type: "button", class: "repeats",
      title: "fold them again",
      on: { click: () => this.app.state.toggle("unfolded", row.run) } }, "fold"));
    return cell;
  }

  // Of the same modules in the other graph.
  then(row, sum) {
    const found = row.paths.map((path) => this.others.get(path)).filter(Boolean);
    return found.reduce((total, module) =>
      total + (row.kind === "own" ? ownSum(module, sum) : module[sum]), 0);
  }

  columns() {
    const { app } = this;
    const total = app.model.summary.saved_activation_bytes;
    const right = (key, title, width, cell, sortable = true) =>
      ({ key, title, width, cell, right: true, sortable });
    const bytes = (sum) => (row) => byteLines(row[sum]);
    const most = (field) => (row) => (row.kind !== "module" || row.highest === 0 ? ""
      : byteLines(row[field]));
    const list = [
      { key: "name", title: "module", width: "minmax(150px, 1.8fr)", sortable: true,
        cell: (row) => this.nameCell(row) },
      right("operations", "ops", "42px", (row) => formatCount(row.operations)),
      right("activations", "saved activations", "minmax(104px, 0.7fr)", bytes("activations")),
      { key: "share", title: "share", width: "98px", cell: (row) => h("span", { class: "share" },
        shareBar(row.activations, total)) }];
    if (app.other) list.push(
      right("then", app.otherName, "minmax(104px, 0.7fr)", (row) => (row.kind === "node" ? ""
        : byteLines(this.then(row, "activations"))), false),
      right("delta", "difference", "minmax(104px, 0.7fr)", (row) => this.difference(row), false));
    else list.push(
      right("shared", "shared", "minmax(92px, 0.7fr)", (row) => (row.kind === "own" ? ""
        : byteLines(row.shared))),
      right("others", "parameters, inputs", "minmax(96px, 0.7fr)", bytes("others")),
      ...(this.element.clientWidth < wide ? []
        : [right("transient", "transient at most", "minmax(104px, 0.7fr)", most("transient"))]),
      right("highest", "live at most", "minmax(104px, 0.7fr)", most("highest")));
    list.push({ key: "checkpoint", title: "checkpoint", width: "74px", cell: (row) =>
      (row.kind !== "module" || row.path === "" ? "" : changeBox(app, "checkpoint",
        patternsOf(app.model.graph, row.paths), `checkpoint ${row.path}`, row.paths)) });
    return list;
  }

  difference(row) {
    if (row.kind === "node") return "";
    const change = this.then(row, "activations") - row.activations;
    return h("span", { class: classOfChange(change) },
      change === 0 ? "same" : formatChange(change));
  }

  // Modules that only the other graph has.
  added(rows) {
    const known = this.app.model.byPath;
    const list = [];
    for (const [path, module] of this.others)
      if (path !== "" && !known.has(path) && known.has(module.parent?.path))
        list.push({ ...module, kind: "module", key: `module:${path}`, name: path, depth: 0,
          operations: 0, activations: 0, shared: 0, others: 0, highest: 0, transient: 0,
          mark: "added", canOpen: false, paths: [path], path: "" });
    return [...rows, ...list];
  }

  marked(row) {
    if (row.kind === "node") return row;
    const found = row.paths.some((path) => this.others.has(path));
    const same = this.then(row, "activations") === row.activations &&
      this.then(row, "operations") === row.operations;
    return same ? row : { ...row, mark: found ? "changed" : "removed" };
  }

  update() {
    const { app } = this;
    let { rows } = new Rows(app);
    if (app.other) {
      this.others = app.other.byPath;
      rows = this.added(rows.map((row) => this.marked(row)));
    }
    const columns = this.columns();
    this.tell(columns);
    this.table.show(rows, { columns, order: app.state.value.modules,
      selected: app.state.value.select });
  }
}

export const modulesPanel = (app) => new ModulesPanel(app);

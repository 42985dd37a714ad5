// Which modules have attention weights that were recorded beside the graph, or how to record some.
import { h, link, panel } from "./dom.js";
import { plural, straight } from "./format.js";
import { pathsTo } from "./module_tree.js";

const attends = new Set(["softmax", "fused_attention"]);

const howTo = () => h("p", {}, "None were recorded with this step. ",
  h("code", {}, "tapehead maps --text '...' -o maps.json"), " records those of a model that ",
  h("code", {}, "tapehead train"), " saved, and AttentionRecorder those of any program's; ",
  h("code", {}, "tapehead graph html ... --attention maps.json"), " puts them here.");

// The module, or the one around it that the graph knows, as a checkpoint.
const known = (app, module) =>
  pathsTo(module).findLast((path) => app.model.byPath.has(path)) ?? "";

function mapsTable(app, maps) {
  return h("table", { class: "plain", id: "maps" }, h("tbody", {}, maps.map(({ module, heads }) =>
    h("tr", {}, h("td", { class: "label" }, link(straight(module), () =>
      app.select(`module:${known(app, module)}`))),
    h("td", {}, `${plural(heads.length, "head")}, queries × keys: ` +
      `${heads[0]?.length ?? 0} × ${heads[0]?.[0]?.length ?? 0}`)))));
}

/** Hidden where nothing attends to anything. */
export function attentionPanel(app) {
  const maps = app.attention?.maps ?? [];
  const count = maps.length > 0 ? `: ${plural(maps.length, "module")}, ${plural(maps.reduce(
    (sum, { heads }) => sum + heads.length, 0), "head")}` : "";
  const element = panel("attention", `Attention weights${count}`, maps.length > 0 &&
    "Click a module: its heads stand in the details, each as a heat map.",
  maps.length > 0 ? mapsTable(app, maps) : howTo());
  element.hidden = maps.length === 0 &&
    !app.model.graph.nodes.some(({ operation }) => attends.has(operation));
  return { element, uses: [], update() {} };
}

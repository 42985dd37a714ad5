// What made a value, as a reader knows it. The twin of maker.cpp; maker.h tells what is said.
import { nodeLabel } from "./graph.js";
import { isSameList } from "./lists.js";
import { copies, views } from "./operations.js";

const showing = new Set([...views, ...copies]);

// The value that this one is a view or a copy of. Files may hold circles: producers only go down.
function behindViews({ nodes, values }, id) {
  for (let madeBy = values[id].producer;
    madeBy >= 0 && showing.has(nodes[madeBy].operation) && nodes[madeBy].inputs.length > 0;) {
    [id] = nodes[madeBy].inputs;
    if (values[id].producer >= madeBy) break;
    madeBy = values[id].producer;
  }
  return id;
}

// "[0:64]" where `shown` is some rows of `all`; empty where it is another view.
function rowsOf(shown, all) {
  if (!isSameList(shown.strides, all.strides) || isSameList(shown.shape, all.shape) ||
      !(all.strides[0] > 0) || !isSameList(shown.shape.slice(1), all.shape.slice(1)))
    return "";
  const first = Math.floor((shown.offset - all.offset) / all.strides[0]);
  return `[${first}:${first + shown.shape[0]}]`;
}

// "in_proj_weight[0:64]": the first parameter with a name among the inputs, without the node's
// path.
function parameterOf(graph, node) {
  for (const input of node.inputs) {
    const all = graph.values[behindViews(graph, input)];
    if (!all.leaf || all.name === "") continue;
    const prefix = node.module ? `${node.module}.` : "";
    const name = all.name.startsWith(prefix) ? all.name.slice(prefix.length) : all.name;
    return name + rowsOf(graph.values[input], all);
  }
  return "";
}

/** "layers.0.self_attn linear with in_proj_weight[0:64]"; empty of nothing. */
export function makerLabel(graph, value) {
  const maker = makerOf(graph, value);
  if (!maker) return "";
  return nodeLabel(graph, maker.node) + (maker.parameter && ` with ${maker.parameter}`);
}

/** The value's name, or that of the value that it is a view of; the rows are left out. */
export function nameOf(graph, id) {
  const shown = graph.values[id], all = graph.values[behindViews(graph, id)];
  return shown.name === "" && all.storage === shown.storage ? all.name : shown.name;
}

/** The same with the rows that a view shows: "layers.0.self_attn.in_proj_weight[0:64]". */
export function nameLabel(graph, id) {
  const shown = graph.values[id], name = nameOf(graph, id);
  return shown.name !== "" || name === "" ? name
    : name + rowsOf(shown, graph.values[behindViews(graph, id)]);
}

/** {node, operation, module, parameter} of what made the value, past views and copies; null of nothing. */
export function makerOf(graph, value) {
  const { producer } = graph.values[behindViews(graph, value)];
  if (producer < 0) return null;
  const { operation, module } = graph.nodes[producer];
  return { node: producer, operation, module, parameter: parameterOf(graph, graph.nodes[producer]) };
}

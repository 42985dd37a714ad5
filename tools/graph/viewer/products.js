// The sizes whose product are the flops of an operation, as flops() of each operation has them.
import { elements } from "./graph.js";
import { sumOf } from "./lists.js";

const shapes = (graph, ids) => ids.map((id) => graph.values[id].shape);

// A multiplication and an addition for each element of the result and each of the sum behind it.
function contraction(graph, node) {
  const [summed, made] = shapes(graph, [node.inputs[0], node.output]);
  return [{ unit: 2, dims: [...made, ...summed.slice(-1)] }];
}

// Scores from queries and keys, then the sum of the values: of all pairs of positions.
function attention(graph, { inputs }) {
  const [q, , v] = shapes(graph, inputs);
  return [q, v].map((side) => ({ unit: 2, dims: [...q.slice(0, 3), v[2], side[3]] }));
}

const products = { matmul: contraction, linear: contraction, fused_attention: attention };

const flopsOf = ({ unit, dims }) => unit * elements(dims);

/** Rows {unit, dims, amount} whose amounts are the node's flops; without dims where none tell. */
export function flopProducts(graph, node) {
  if (node.flops === 0) return [];
  const make = Object.hasOwn(products, node.operation) ? products[node.operation] : () => [];
  const rows = make(graph, node).map((row) => ({ ...row, amount: flopsOf(row) }));
  const sum = sumOf(rows, "amount");
  return sum === node.flops ? rows : [{ amount: node.flops }];
}

// Letters for sizes: shapes and bytes written in them.
import { elementBytes, elements } from "./graph.js";
import { formatCount } from "./format.js";
import { append } from "./lists.js";

/** Letters whose size no dim of these graphs has, each as "B stands nowhere: no dim is 77". */
export function unusedSizes(letters, graphs) {
  const dims = new Set(graphs.flatMap(({ values }) => values.flatMap(({ shape }) => shape)));
  return letters.filter(({ size }) => !dims.has(size))
    .map(({ name, size }) => `${name} stands nowhere: no dim is ${formatCount(size)}`);
}

/**
 * "B=8 T=128" as {letters, problem}: a list of {name, size}, and what is wrong with the rest of the
 * text, or "". Dims of 1 are always written as 1, so a letter for 1 stands nowhere.
 */
export function parseSizes(text) {
  const sizes = new Map(), problems = [];
  for (const word of text.replace(/\s*[=:]\s*/g, "=").split(/[\s,;]+/).filter(Boolean)) {
    const [, name, size] = word.match(/^([A-Za-z_]+)=([0-9]+)$/) ?? [];
    if (name === undefined) problems.push(`"${word}" is no LETTER=SIZE`);
    else if (Number(size) < 1) problems.push(`${name} is ${size}; a size is at least 1`);
    else if (sizes.has(name)) problems.push(`${name} is given twice; ${sizes.get(name)} is taken`);
    else sizes.set(name, Number(size));
  }
  return { problem: problems.join("; "), letters: [...sizes].filter(([, size]) => size > 1)
    .map(([name, size]) => ({ name, size })) };
}

// The letter of a size, or "" where none has it or several have: no one knows which of these it is.
function letterOf(size, sizes) {
  const same = sizes.filter((letter) => letter.size === size);
  return same.length === 1 ? same[0].name : "";
}

/** Sizes that several letters have, each as "128 (T, d)". */
export function sharedSizes(sizes) {
  const names = new Map();
  for (const { name, size } of sizes) append(names, size, name);
  return [...names].filter(([, all]) => all.length > 1)
    .map(([size, all]) => `${formatCount(size)} (${all.join(", ")})`);
}

/** "(B, T, 384)"; "" where no dim is a letter. */
export function shapeInLetters(shape, sizes) {
  const letters = shape.map((dim) => letterOf(dim, sizes));
  return letters.some(Boolean) ? `(${letters.map((name, i) => name || shape[i]).join(", ")})` : "";
}

// What the value of a storage comes to, if it fills it.
const filling = ({ value, bytes }) => (value
  ? { unit: elementBytes(value.dtype), dims: value.shape, amount: bytes } : { amount: bytes });

// An amount that is the product of the dims, times the unit: its letters, how many these are, and
// the sizes that are none. Without such dims it is a number.
function monomial({ unit, dims, amount }, sizes) {
  if (!dims || elements(dims) * unit !== amount)
    return { unit: 1, key: "", degree: 0, numbers: [amount] };
  const names = dims.map((dim) => letterOf(dim, sizes)), letters = names.filter(Boolean);
  return { unit, key: power(letters), degree: letters.length,
    numbers: dims.filter((dim, i) => dim !== 1 && names[i] === "") };
}

function power(names) {
  const counts = new Map();
  for (const name of names.sort()) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, count]) => (count > 1 ? `${name}^${count}` : name)).join("*");
}

function term({ factor, key }) {
  if (key === "") return String(factor);
  return factor === 1 ? key : `${factor}*${key}`;
}

/** "4*B*T*48" for what keeps these bytes; "" where no dim is a letter. */
export function bytesInLetters(value, bytes, sizes) {
  const { unit, key, numbers } = monomial(filling({ value, bytes }), sizes);
  return key === "" ? "" : [term({ factor: unit, key }), ...numbers].join("*");
}

/**
 * The sum over rows {unit, dims, amount}: {formula, isFixed}, the term of the highest degree
 * first, as in plan --formula, and of one degree the largest. `isFixed` when it holds sizes that
 * are no letters. The formula is "" without a letter.
 */
export function amountsInLetters(rows, sizes) {
  const terms = new Map();
  let isFixed = false;
  for (const row of rows) {
    const { unit, key, degree, numbers } = monomial(row, sizes);
    const sum = terms.get(key) ?? { factor: 0, amount: 0, key, degree };
    sum.factor += unit * elements(numbers);
    sum.amount += row.amount;
    isFixed ||= numbers.length > 0;
    terms.set(key, sum);
  }
  const all = [...terms.values()].filter(({ amount }) => amount > 0);
  return { isFixed, formula: all.some(({ key }) => key !== "")
    ? all.sort((a, b) => b.degree - a.degree || b.amount - a.amount).map(term).join(" + ") : "" };
}

/** The same over rows {value, bytes}. */
export const sumInLetters = (rows, sizes) => amountsInLetters(rows.map(filling), sizes);

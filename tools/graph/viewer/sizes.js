// Letters for sizes: shapes and bytes written in them.
import { elementBytes, elements } from "./graph.js";
import { formatCount } from "./format.js";

/** "B=8 T=128" as a list of {name, size}; what is no such pair is left out. */
export function parseSizes(text) {
  return [...text.matchAll(/([A-Za-z_]+)\s*[=:]\s*([0-9]+)/g)]
    .map(([, name, size]) => ({ name, size: Number(size) })).filter(({ size }) => size > 1);
}

// A size as a number times letters. Where several letters have the size all are named; a product, a
// multiple or a quotient is taken only when it is the only one, for a guess would mislead.
function findFactors(size, sizes) {
  const same = sizes.filter((letter) => letter.size === size);
  if (same.length > 0) return { factor: 1, names: [same.map(({ name }) => name).join("|")] };
  const found = [];
  sizes.forEach((a, i) => {
    if (size % a.size === 0 && size / a.size <= 8)
      found.push({ factor: size / a.size, names: [a.name] });
    sizes.forEach((b, k) => {
      if (k > i && a.size * b.size === size) found.push({ factor: 1, names: [a.name, b.name] });
      if (a.size === size * b.size) found.push({ factor: 1, names: [`${a.name}/${b.name}`] });
    });
  });
  return found.length === 1 ? found[0] : { factor: size, names: [] };
}

const found = new WeakMap();  // by the list of letters: what sizes came to

function factors(size, sizes) {
  if (!found.has(sizes)) found.set(sizes, new Map());
  const known = found.get(sizes);
  if (!known.has(size)) known.set(size, findFactors(size, sizes));
  return known.get(size);
}

const product = ({ factor, names }) =>
  [...(factor === 1 && names.length > 0 ? [] : [String(factor)]), ...names].join("*");

/** "(B, T, 3*d)"; "" without letters. */
export const shapeInLetters = (shape, sizes) => (sizes.length === 0 ? ""
  : `(${shape.map((dim) => (dim === 1 ? "1" : product(factors(dim, sizes)))).join(", ")})`);

// What the value of a storage comes to, if it fills it.
const filling = ({ value, bytes }) => (value
  ? { unit: elementBytes(value.dtype), dims: value.shape, amount: bytes } : { amount: bytes });

// An amount that is the product of the dims, times the unit, as a factor and letters; else null.
function monomial({ unit, dims, amount }, sizes) {
  if (!dims || elements(dims) * unit !== amount) return null;
  const parts = dims.map((dim) => factors(dim, sizes));
  const names = parts.flatMap((part) => part.names);
  return { factor: parts.reduce((all, part) => all * part.factor, unit), names };
}

// Each quotient and its divisor make one letter: d/h times h is d.
function cancelled(names) {
  const rest = [...names];
  for (const quotient of names.filter((name) => name.includes("/"))) {
    const [letter, divisor] = quotient.split("/");
    if (!rest.includes(divisor)) continue;
    rest.splice(rest.indexOf(divisor), 1);
    rest[rest.indexOf(quotient)] = letter;
  }
  return rest.sort();
}

function power(names) {
  const counts = new Map();
  for (const name of cancelled(names).map((one) => (one.includes("|") ? `(${one})` : one)))
    counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, count]) => (count > 1 ? `${name}^${count}` : name)).join("*");
}

function term({ factor, key }) {
  if (key === "") return formatCount(factor);
  return factor === 1 ? key : `${factor}*${key}`;
}

/** "4*B*T*d" for what keeps these bytes; "" where letters do not tell. */
export function bytesInLetters(value, bytes, sizes) {
  const found = sizes.length > 0 && monomial(filling({ value, bytes }), sizes);
  return found ? term({ factor: found.factor, key: power(found.names) }) : "";
}

/** The sum over rows {unit, dims, amount}, the largest term first; "" without letters. */
export function amountsInLetters(rows, sizes) {
  if (sizes.length === 0) return "";
  const terms = new Map();
  for (const row of rows) {
    const found = monomial(row, sizes) ?? { factor: row.amount, names: [] };
    const key = power(found.names);
    const sum = terms.get(key) ?? { factor: 0, amount: 0, key };
    sum.factor += found.factor;
    sum.amount += row.amount;
    terms.set(key, sum);
  }
  return [...terms.values()].sort((a, b) => b.amount - a.amount).map(term).join(" + ");
}

/** The same over rows {value, bytes}. */
export const sumInLetters = (rows, sizes) => amountsInLetters(rows.map(filling), sizes);

// Lists, also in maps.

/** Several things as one key of a map. */
export const keyOf = (...parts) => JSON.stringify(parts);

/** Whether the lists have the same entries. */
export const isSameList = (a, b) => a.length === b.length && a.every((one, i) => one === b[i]);

/** Adds a value to the list that the map has for the key, or a list of it alone. */
export function append(map, key, value) {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}

/** The sum of one figure of the rows. */
export const sumOf = (rows, figure) => rows.reduce((sum, row) => sum + row[figure], 0);

/** The places [from, to) of part k when `all` places are split into `count` parts. */
export const partOf = (k, count, all) =>
  [Math.floor(k * all / count), Math.floor((k + 1) * all / count)];

/** {key, sign} of an order: "bytes" or, downwards, "-bytes". */
export const orderOf = (order) =>
  ({ key: order.replace(/^-/, ""), sign: order.startsWith("-") ? -1 : 1 });

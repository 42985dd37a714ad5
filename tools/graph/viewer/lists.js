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

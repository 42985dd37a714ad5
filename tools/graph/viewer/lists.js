// Lists in maps.

/** Adds a value to the list that the map has for the key, or a list of it alone. */
export function append(map, key, value) {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}

// Operations that move elements and compute none, by their names. The twin of view_operations.h.

// Of the elements that they read, all, once each.
const rearranging = ["reshape", "flatten", "squeeze", "unsqueeze", "transpose", "permute"];

/** Operations whose result lies in the storage of what they read, a reshape's mostly. */
export const views = [...rearranging, "expand", "narrow", "slice", "select", "diagonal"];

/** Operations whose result is the same in a storage of its own. */
export const copies = ["clone", "contiguous"];

/**
 * Operations whose result's gradient is, as it is, that of what they read. Views of a part are none:
 * their gradient stands among zeros; and expand's is a sum.
 */
export const rearrangements = [...rearranging, ...copies];

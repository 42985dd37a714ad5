// What a name that is not there may have been meant for. The twin of near_names.cpp, which counts
// bytes of UTF-8.
import { fitLabel } from "./format.js";

const mostListed = 3, labelColumns = 48;
// Of longer ones the rest does not count: the work is their product.
const longest = 128;

const encoder = new TextEncoder();
const [star, anyOne] = encoder.encode("*?");

// The fewest bytes to change, add or leave out so that `wanted` stands in `name` (Sellers'
// algorithm: Levenshtein's, but what stands before and behind costs nothing).
function distance(wanted, name) {
  const column = Array.from({ length: wanted.length + 1 }, (_, i) => i);
  let least = wanted.length;
  for (const byte of name) {
    let diagonal = column[0];
    for (let i = 1; i < column.length; ++i) {
      const isSame = wanted[i - 1] === byte || wanted[i - 1] === anyOne;
      const changed = diagonal + (isSame ? 0 : 1);
      diagonal = column[i];
      column[i] = Math.min(changed, column[i] + 1, column[i - 1] + 1);
    }
    least = Math.min(least, column[wanted.length]);
  }
  return least;
}

// Of names as long as one another, which comes first.
function order(a, b) {
  const at = a.findIndex((byte, i) => byte !== b[i]);
  return at < 0 ? 0 : a[at] - b[at];
}

/**
 * "; the nearest names are softmax and log_softmax": up to three of `names` that need the fewest
 * changes so that the pattern stands in them, the shorter first. "; there are none" without names.
 */
export function nearNames(pattern, names) {
  const wanted = encoder.encode(pattern).slice(0, longest).filter((byte) => byte !== star);
  const nearest = [...new Set(names)].filter((name) => name !== "").map((name) => {
    const bytes = encoder.encode(name);
    return { name, bytes, away: distance(wanted, bytes.slice(0, longest)) };
  }).sort((a, b) => a.away - b.away || a.bytes.length - b.bytes.length || order(a.bytes, b.bytes))
    .slice(0, mostListed).map(({ name }) => fitLabel(name, labelColumns));
  if (nearest.length === 0) return "; there are none";
  if (nearest.length === 1) return `; the nearest name is ${nearest[0]}`;
  return `; the nearest names are ${nearest.slice(0, -1).join(", ")} and ${nearest.at(-1)}`;
}

// What slots that differ in the numbers of their modules alone keep together, and each of them.
import { keyOfSavers, savers, shortLabel, starredLabel } from "./advice.js";
import { fact, facts, h, link } from "./dom.js";
import { formatBytes, formatCount, formatShare } from "./format.js";
import { slotLabel } from "./graph.js";
import { bytesInLetters } from "./sizes.js";
import { Table } from "./table.js";

function keptTable(app, rows) {
  const { graph } = app.model;
  const table = new Table({ label: "Kept by each", key: (row) => row.key, tallest: 16,
    open: (row) => app.select(row.key), columns: [
      { key: "bytes", title: "bytes", width: "94px", right: true,
        cell: (row) => formatCount(row.bytes) },
      { key: "savers", title: "kept by", width: "minmax(80px, 1fr)",
        cell: (row) => slotLabel(graph, graph.saved[row.slots[0]]) }] });
  table.element.id = "alike";
  table.show(rows);
  return table.element;
}

/** The name of a group of savers(), which opens it. */
export const saversLink = (app, group) => link(shortLabel(group.label), () =>
  app.select(keyOfSavers(group)), { title: group.label });

// What else keeps the same memory.
const others = ({ graph }, { label, rows }) => [...new Set(rows.flatMap(({ slots }) =>
  slots.map((slot) => starredLabel(graph, graph.saved[slot]))))].filter((one) => one !== label);

/** Of a label of savers(), as elements; null when nothing has it. */
export function saversDetails(app, label) {
  const group = savers(app.model).find((one) => one.label === label);
  if (!group) return null;
  const { rows, bytes, why } = group, total = app.model.summary.saved_activation_bytes;
  const also = others(app.model, group);
  const [first] = rows, each = bytesInLetters(first.value, first.bytes, app.letters);
  return [h("h3", {}, `${label} × ${formatCount(rows.length)}`),
    facts(fact("bytes together", formatBytes(bytes)),
      fact("share", `${formatShare(bytes, total)} of the saved activations`),
      each && fact("the first", h("span", { class: "formula" }, `${each} bytes`)),
      fact("why", why),
      also.length > 0 && fact("kept by, too", also.join(", "))),
    h("h4", {}, "Each of them"), keptTable(app, rows)];
}

// What slots that differ in the numbers of their modules alone keep together, and each of them.
import { savers } from "./advice.js";
import { h } from "./dom.js";
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

/** Of a label of savers(), as elements; null when nothing has it. */
export function saversDetails(app, label) {
  const group = savers(app.model).find((one) => one.label === label);
  if (!group) return null;
  const { rows, bytes, why } = group, total = app.model.summary.saved_activation_bytes;
  const fact = (name, ...content) => [h("dt", {}, name), h("dd", {}, ...content)];
  const [first] = rows, each = bytesInLetters(first.value, first.bytes, app.letters);
  return [h("h3", {}, `${label} × ${formatCount(rows.length)}`),
    h("dl", { class: "facts" }, fact("bytes together", formatBytes(bytes)),
      fact("share", `${formatShare(bytes, total)} of the saved activations`),
      each && fact("the first", h("span", { class: "formula" }, `${each} bytes`)),
      fact("why", why)),
    h("h4", {}, "Each of them"), keptTable(app, rows)];
}

// Who keeps the most and why; what would bring it down; what the lint found.
import { byWorth, candidates, changeText, findings, fusedNote, savers, shortLabel, tried }
  from "./advice.js";
import { saversLink } from "./savers_details.js";
import { classOfChange, h, link, panel, shareBar } from "./dom.js";
import { formatBytes, formatChange, formatCount, plural, timesText } from "./format.js";
import { sumOf } from "./lists.js";
import { bytesInLetters } from "./sizes.js";

const mostSavers = 6, mostChanges = 6, mostFindings = 5;

function saverRow(app, group) {
  const total = app.model.summary.saved_activation_bytes;
  const [first] = group.rows, many = group.rows.length;
  const each = bytesInLetters(first.value, first.bytes, app.letters);
  return h("tr", {},
    h("td", { class: "label" }, saversLink(app, group), timesText(many)),
    h("td", { class: "right number" }, formatBytes(group.bytes)),
    h("td", { class: "share" }, shareBar(group.bytes, total)),
    h("td", { class: "why" }, group.why, each && h("div", { class: "formula" },
      `${each} bytes${many > 1 ? " each" : ""}`)));
}

function saversTable(app) {
  const all = savers(app.model), shown = all.slice(0, mostSavers);
  const rest = sumOf(all.slice(mostSavers), "bytes");
  return h("table", { id: "savers", class: "plain" },
    h("thead", {}, h("tr", {}, h("th", {}, "kept by"), h("th", { class: "right" }, "bytes saved"),
      h("th", {}, "share"), h("th", {}, "why: what the backward pass computes with it"))),
    h("tbody", {}, shown.map((group) => saverRow(app, group)),
      all.length === 0 && h("tr", {}, h("td", { colspan: 4 }, "Nothing is saved.")),
      all.length > shown.length && h("tr", {}, h("td", {}, `${all.length - shown.length} more`),
        h("td", { class: "right number" }, formatBytes(rest)),
        h("td", { class: "share" }, shareBar(rest, app.model.summary.saved_activation_bytes)),
        h("td", {}, "listed below"))));
}

const signedShare = (share) => `${share > 0 ? "+" : ""}${(100 * share).toFixed(0)} %`;

// The kernel's backward pass multiplies within one operation, which records no product.
function extraFlops(now, then, kind) {
  const share = now > 0 ? ` (${signedShare(then / now - 1)})` : "";
  return [then === now ? "none" : formatChange(then - now) + share,
    kind === "fuse" && h("div", { class: "second" }, fusedNote)];
}

function changeRow(app, { change, now, then }) {
  const changeOf = (key) => h("td", { class: "right number" },
    then[key] === undefined ? "unknown" : `${formatCount(then[key])} `,
    then[key] !== undefined && h("span", {
      class: `change-share ${classOfChange(then[key] - now[key])}` },
    then[key] === now[key] ? "same" : signedShare(then[key] / now[key] - 1)));
  return h("tr", {},
    h("td", { class: "label" }, changeText(change)),
    changeOf("peak_bytes"), changeOf("saved_activation_bytes"),
    h("td", { class: "right number" }, extraFlops(now.flops, then.flops, change.kind)),
    h("td", {}, h("button", { type: "button", class: "small",
      "data-change": `${change.kind} ${change.pattern}`,
      on: { click: () => app.ask([...app.made, change]) } },
    "try it")));
}

// Tries one change at a time, so that the page can be used meanwhile.
function tryAll(app, body) {
  const found = [];
  const waiting = candidates(app.model);
  const next = () => {
    const change = waiting.shift();
    if (!change) {
      if (found.length === 0)
        body.replaceChildren(h("tr", {}, h("td", { colspan: 5 },
          "Nothing of what was tried.")));
      body.dataset.done = "yes";
      app.foundBest(found[0] ?? null);
      return;
    }
    const result = tried(app.model, change);
    if (result) {
      found.push(result);
      body.replaceChildren(...found.sort(byWorth).slice(0, mostChanges)
        .map((one) => changeRow(app, one)));
    }
    setTimeout(next);
  };
  setTimeout(next);
}

function changesTable(app) {
  const body = h("tbody", { id: "candidates" },
    h("tr", {}, h("td", { colspan: 5 }, "Trying what would help ...")));
  tryAll(app, body);
  return h("table", { class: "plain changes-tried" },
    h("thead", {}, h("tr", {}, h("th", {}, "change"),
      ["peak then, bytes", "saved then, bytes", "extra recorded flops"].map((name) =>
        h("th", { class: "right" }, name)),
      h("th", {}, ""))), body);
}

function findingsTable(app) {
  const all = findings(app.model, app.about.findings);
  if (all.length === 0) return null;
  return h("div", { id: "findings" },
    h("h3", {}, "Bytes that need not be saved, says the lint"),
    h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, h("th", {}, "rule"), h("th", {}, "kept by"),
        h("th", { class: "right" }, "mending frees"), h("th", {}, "how to mend it"))),
      h("tbody", {}, all.slice(0, mostFindings).map((finding) => h("tr", {},
        h("td", {}, finding.rule),
        h("td", { class: "label" },
          link(shortLabel(finding.label), () => app.select(app.keyOfSlot(finding.slot))),
          timesText(finding.count)),
        h("td", { class: "right number" }, formatBytes(finding.freed)),
        h("td", { class: "why" }, finding.mending))),
      all.length > mostFindings && h("tr", {}, h("td", { colspan: 4 },
        `${plural(all.length - mostFindings, "more kind")}: see tapehead graph lint`)))));
}

export function advicePanel(app) {
  const who = h("div");
  const element = panel("advice", "Who keeps it, why, and what would bring it down", null,
    h("div", { class: "pair" },
      h("div", {}, h("h3", {}, "Who keeps the saved activations, and why"), who,
        h("p", { class: "about" }, "What several operations keep counts with the first of them.")),
      h("div", {}, h("h3", {}, "What would bring it down"), changesTable(app),
        h("p", { class: "about" }, "Computed in this page from the recorded step, without " +
          "running it. ", h("em", {}, "try it"), " sets the change beside what is: a line " +
          "\"then\" below the figures, a dashed outline in the timeline, columns of the modules and marks " +
          "on the tape. What is selected stays as recorded."))),
    findingsTable(app));
  let shown = null;  // letters
  const title = element.querySelector("h2"), asked = title.textContent;
  return { element, uses: [], update() {
    title.textContent = asked + (app.second ? `: before, ${app.fileNames()[0]}` : "");
    if (shown === app.letters) return;
    shown = app.letters;
    who.replaceChildren(saversTable(app));
  } };
}

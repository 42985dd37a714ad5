// Keys of the whole page. Tables and the drawing have their own.
import { fact, h, hasModifier } from "./dom.js";
import { numberIn } from "./state.js";

const keys = [
  ["/", "search"],
  ["↓ Enter", "in the search: to the rows that it found"],
  ["↑ ↓", "rows of a table"],
  ["← →", "steps of the timeline"],
  ["Enter", "open"],
  ["Esc", "one thing back: clears the search, closes the details, shows all steps, takes the " +
    "last change back, or the second graph"],
];

/** Every key with its meaning. */
export const keysHelp = () => h("dl", { class: "facts keys" }, keys.map(([name, meaning]) =>
  fact(h("kbd", {}, name), meaning)));

const isTyping = (element) => element.matches?.("input:not([type=checkbox]), textarea, select");

function moveStep(app, distance) {
  const { line, graph } = app.model;
  if (!line || graph.steps.length === 0) return;
  const step = numberIn(app.state.value.select, "step");
  const from = step >= 0 ? step : line.peakStep - distance;
  const to = Math.min(Math.max(from + distance, 0), graph.steps.length - 1);
  app.select(`step:${to}`);
}

// One thing at a time: the search, the selection, the zoom, then the last change or the second
// graph.
function goBack(app) {
  const { state } = app;
  const { query, select, range, changes } = state.value;
  if (query !== "") state.set({ query: "" });
  else if (select !== "") state.set({ select: "" });
  else if (range.length > 0) state.set({ range: [] });
  else if (changes.length > 0) state.set({ changes: changes.slice(0, -1) });
  else if (app.second) app.closeOther();
}

function leaveBox(app, box) {
  if (box.id === "search") app.state.set({ query: "" });
  box.blur();
}

export function listenToKeys(app) {
  addEventListener("keydown", (event) => {
    if (hasModifier(event) || event.defaultPrevented) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") leaveBox(app, event.target);
      return;
    }
    if (event.key === "/") document.getElementById("search").focus();
    else if (event.key === "Escape") goBack(app);
    else if (event.key === "ArrowRight") moveStep(app, 1);
    else if (event.key === "ArrowLeft") moveStep(app, -1);
    else return;
    event.preventDefault();
  });
}

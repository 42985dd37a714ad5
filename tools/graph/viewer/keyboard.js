// Keys of the whole page. Tables and the drawing have their own.

const isTyping = (element) => element.matches?.("input:not([type=checkbox]), textarea, select");

function moveStep(app, distance) {
  const { line, graph } = app.model;
  if (!line || graph.steps.length === 0) return;
  const [kind, id] = app.state.value.select.split(":");
  const from = kind === "step" ? Number(id) : line.peakStep - distance;
  const to = Math.min(Math.max(from + distance, 0), graph.steps.length - 1);
  app.select(`step:${to}`);
}

// What is open goes first: the selection, then the zoom.
function goBack(app) {
  if (app.state.value.select !== "") app.select("");
  else if (app.state.value.range.length > 0) app.state.set({ range: [] });
}

export function listenToKeys(app) {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") event.target.blur();
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

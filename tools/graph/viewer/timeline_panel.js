// Live bytes over the steps of forward, backward and update, by category, and the peak.
import { swatch } from "./colours.js";
import { h, panel } from "./dom.js";
import { categories } from "./graph.js";
import { bytesText, formatBytes, formatCount, words } from "./format.js";
import { stepText } from "./model.js";
import { numberIn } from "./state.js";
import { drawTimeline, plotArea } from "./timeline_drawing.js";

class TimelinePanel {
  constructor(app) {
    this.app = app;
    this.uses = ["select", "range"];
    this.from = null;  // the step at which dragging began
    this.canvas = h("canvas", { id: "timeline-canvas", tabindex: 0, role: "img",
      "aria-label": "Live bytes over the steps; arrow keys move from step to step" });
    this.peak = h("button", { type: "button", id: "peak", class: "peak",
      on: { click: () => app.select(`step:${app.model.line.peakStep}`) } });
    this.plot = h("div", { class: "plot" }, this.canvas, this.peak);
    this.legend = h("div", { class: "legend", id: "timeline-legend" });
    this.readout = h("p", { class: "about number", id: "timeline-readout" });
    this.whole = h("button", { type: "button", class: "small",
      on: { click: () => app.state.set({ range: [] }) } }, "show all steps");
    this.zoom = h("button", { type: "button", class: "small",
      on: { click: () => this.zoomToPeak() } }, "zoom to the peak");
    this.element = panel("timeline", "Live memory over the step", "Operations from left " +
      "to right: forward, backward, update. Click a step to list what is live there and why; drag " +
      "to zoom in.", this.plot,
    h("div", { class: "line" }, this.legend, this.zoom, this.whole), this.readout,
    app.model.line && h("p", { class: "about" }, "What is live differs from step " +
      "to step: saved is here what is kept at that step, not all that is saved in the whole one. " +
      "Transient is all else: results that no slot " +
      "keeps, and what an operation makes on its way. Workspace is no category: kernels work on " +
      "their stacks, and what BLAS takes for itself is not counted."));
    if (app.model.line) this.listen();
  }

  listen() {
    const { app, canvas } = this;
    new ResizeObserver(() => this.draw()).observe(this.plot);
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerleave", () => this.tell(this.step()));
    canvas.addEventListener("pointerdown", (event) => { this.from = this.stepAt(event); });
    canvas.addEventListener("pointerup", (event) => {
      if (this.from === null) return;
      const [a, b] = [this.from, this.stepAt(event)].sort((x, y) => x - y);
      this.from = null;
      if (b - a >= 3) app.state.set({ range: [a, b + 1] });
      else app.select(`step:${b}`);
    });
  }

  get range() {
    const { range } = this.app.state.value, steps = this.app.model.graph.steps.length;
    return range.length === 2 && range[1] <= steps ? range : [0, steps];
  }

  zoomToPeak() {
    const { line, graph } = this.app.model;
    const from = Math.max(0, line.peakStep - 30);
    this.app.state.set({ range: [from, Math.min(graph.steps.length, from + 60)] });
  }

  step() { return numberIn(this.app.state.value.select, "step"); }

  stepAt(event) {
    const [from, to] = this.range, box = this.canvas.getBoundingClientRect();
    const { left, right } = plotArea;
    const share = (event.clientX - box.left - left) / (this.width - left - right);
    return Math.min(Math.max(Math.floor(from + share * (to - from)), from), to - 1);
  }

  move(event) {
    const step = this.stepAt(event);
    this.tell(step);
    if (event.buttons === 1 && this.from !== null) this.draw().mark(this.from, step);
  }

  // Of this step, or of the peak where it is not in sight.
  tell(step) {
    const { model } = this.app, [from, to] = this.range;
    const at = step >= from && step < to ? step : model.line.peakStep;
    this.readout.textContent = at < 0 ? "" : `${stepText(model.graph, at)}: at most ` +
      `${bytesText(model.line.highest[at])} live${at === model.line.peakStep
        ? ", the peak" : ""}`;
    const bytes = model.line.atHighest[at] ?? [];
    const moment = at < 0 ? "" : h("span", { class: "entry" }, `at step ${formatCount(at)}:`);
    const live = categories.map((category, i) => h("span", { class: "entry" },
      swatch(category), `${words(category)} `, h("span", { class: "number" },
        formatBytes(bytes[i] ?? 0))));
    this.legend.replaceChildren(moment, ...live,
      ...(model.line.unwatched > 0 ? [h("span", { class: "entry" },
        `live before, met by no operation: ${formatBytes(model.line.unwatched)}`)] : []),
      ...(this.app.other?.line ? [h("span", { class: "entry" }, h("span", { class: "dash" }),
        `${this.app.otherName}: peak ${formatBytes(this.app.other.line.peak)}`)] : []));
  }

  update() {
    const { model, state } = this.app;
    if (!model.line) {
      this.plot.replaceChildren(h("p", {}, "No ledger watched this step: there are no births and " +
        "deaths to draw, and the peak is unknown."));
      this.zoom.hidden = this.whole.hidden = true;
      return;
    }
    this.whole.hidden = state.value.range.length === 0;
    this.tell(this.step());
    this.draw();
  }

  draw() {
    this.width = Math.max(this.plot.clientWidth, 320);
    const drawing = drawTimeline(this.canvas, this.app, this.width, this.range);
    this.markPeak(drawing);
    return drawing;
  }

  markPeak({ x, y }) {
    const { line } = this.app.model;
    const [from, to] = this.range;
    this.peak.hidden = line.peakStep < from || line.peakStep >= to;
    this.peak.textContent = `▼ peak ${formatBytes(line.peak)}`;
    const at = (x(line.peakStep) + x(line.peakStep + 1)) / 2;
    const beyond = at > this.width - 220;
    this.peak.classList.toggle("left", beyond);
    this.peak.style.left = `${at}px`;
    this.peak.style.top = `${Math.max(0, y(line.peak) - 24)}px`;
  }
}

export const timelinePanel = (app) => new TimelinePanel(app);

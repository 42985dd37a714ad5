// Live bytes over the steps of forward, backward and update, by category, and the peak.
import { categoryFill, colour, swatch } from "./colours.js";
import { canvasContext, h, panel } from "./dom.js";
import { categories } from "./graph.js";
import { formatBytes, formatCount, formatUnits, words } from "./format.js";
import { stepText } from "./model.js";
import { indexOfCategory, liveStorages } from "./replay.js";
import { drawBands, drawLife, moduleBands, phases } from "./timeline_strips.js";

const left = 78, right = 14, top = 30, plotHeight = 230, strip = 18, lifeHeight = 10;
const height = top + plotHeight + 2 * strip + lifeHeight + 30;
// Within so many steps each storage is drawn by itself.
const fewSteps = 160, mostRectangles = 40000;

// Round numbers of bytes up to the top, at most five.
function ticks(most) {
  let step = 1;
  while (most / step > 5) step *= most / step > 20 ? 4 : 2;
  const list = [];
  for (let at = 0; at <= most; at += step) list.push(at);
  return list;
}

// Where a step of one graph stands in another: phases are laid over each other.
function alignment(from, to) {
  const borders = (graph) => {
    const list = phases(graph);
    const start = (phase) => list.find(({ name }) => name === phase)?.from;
    const end = graph.steps.length;
    const update = start("update") ?? end;
    return [0, Math.min(start("backward") ?? update, update), update, end];
  };
  const a = borders(from), b = borders(to);
  return (step) => {
    const part = step < a[1] ? 0 : step < a[2] ? 1 : 2;
    const share = a[part + 1] > a[part] ? (step - a[part]) / (a[part + 1] - a[part]) : 0;
    return b[part] + share * (b[part + 1] - b[part]);
  };
}

class TimelinePanel {
  constructor(app) {
    this.app = app;
    this.uses = ["select", "range"];
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
    this.element = panel("timeline", "Live memory over the step", "Operations from left to right: " +
      "forward, backward, update. Click a step to list what is live there and why; drag to zoom in.",
    this.plot, h("div", { class: "line" }, this.legend, this.zoom, this.whole), this.readout);
    if (app.model.line) this.listen();
  }

  listen() {
    const { app, canvas } = this;
    new ResizeObserver(() => this.draw()).observe(this.plot);
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerleave", () => this.tell(this.step()));
    canvas.addEventListener("pointerdown", (event) => { this.from = this.stepAt(event); });
    canvas.addEventListener("pointerup", (event) => {
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

  step() {
    const [kind, id] = this.app.state.value.select.split(":");
    return kind === "step" ? Number(id) : -1;
  }

  x() {
    const [from, to] = this.range, width = this.width - left - right;
    const scale = (step) => left + (step - from) / (to - from) * width;
    scale.range = [left, left + width];
    return scale;
  }

  y() {
    const { app } = this;
    this.most = Math.max(app.model.line.peak, app.other?.line?.peak ?? 0, 1) * 1.04;
    return (bytes) => top + plotHeight * (1 - bytes / this.most);
  }

  stepAt(event) {
    const [from, to] = this.range, box = this.canvas.getBoundingClientRect();
    const share = (event.clientX - box.left - left) / (this.width - left - right);
    return Math.min(Math.max(Math.floor(from + share * (to - from)), from), to - 1);
  }

  move(event) {
    const step = this.stepAt(event);
    this.tell(step);
    if (event.buttons === 1 && this.from !== null && this.from !== undefined) {
      this.draw();
      const context = this.canvas.getContext("2d"), x = this.x();
      context.fillStyle = colour("select");
      context.fillRect(x(this.from), top, x(step) - x(this.from), plotHeight);
    }
  }

  tell(step) {
    const { model } = this.app;
    const at = step >= 0 && step < model.line.highest.length ? step : model.line.peakStep;
    this.readout.textContent = at < 0 ? "" : `${stepText(model.graph, at)}: at most ` +
      `${formatBytes(model.line.highest[at])} bytes live${at === model.line.peakStep
        ? ", the peak" : ""}`;
    const bytes = model.line.atHighest[at] ?? [];
    this.legend.replaceChildren(...categories.map((category, i) => h("span", { class: "entry" },
      swatch(category), `${words(category)} `, h("span", { class: "number" },
        formatBytes(bytes[i] ?? 0)))),
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
    const context = canvasContext(this.canvas, this.width, height);
    const x = this.x(), y = this.y();
    this.axis(context, y);
    context.save();
    context.beginPath();
    context.rect(left, 0, this.width - left - right, height);
    context.clip();
    this.areas(context, x, y);
    this.outline(context, x, y);
    this.storages(context, x, y);
    this.other(context, x, y);
    this.borders(context, x);
    this.cursor(context, x);
    context.restore();
    this.strips(context, x);
    this.markPeak(x, y);
  }

  axis(context, y) {
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.lineWidth = 1;
    for (const tick of ticks(this.most)) {
      context.fillStyle = colour("quiet");
      context.fillText(formatUnits(tick), left - 6, y(tick));
      context.strokeStyle = colour("line");
      context.beginPath();
      context.moveTo(left, Math.round(y(tick)) + 0.5);
      context.lineTo(this.width - right, Math.round(y(tick)) + 0.5);
      context.stroke();
    }
  }

  // The steps to draw, one for each pixel at most: that in which the most was live.
  columns(line = this.app.model.line, range = this.range) {
    const [from, to] = range;
    const count = Math.min(to - from, Math.max(1, Math.floor(this.width - left - right)));
    const list = [];
    for (let k = 0; k < count; ++k) {
      const begin = from + Math.floor(k * (to - from) / count);
      const end = from + Math.floor((k + 1) * (to - from) / count);
      let best = begin;
      for (let step = begin; step < end; ++step)
        if (line.highest[step] > line.highest[best]) best = step;
      list.push({ begin, end, step: best });
    }
    return list;
  }

  areas(context, x, y) {
    const { line } = this.app.model, columns = this.columns();
    const base = columns.map(() => line.unwatched);
    categories.forEach((category, c) => {
      context.beginPath();
      columns.forEach(({ begin, end, step }, i) => {
        const high = base[i] + line.atHighest[step][c];
        context.lineTo(x(begin), y(high));
        context.lineTo(x(end), y(high));
      });
      for (let i = columns.length; i-- > 0;) {
        context.lineTo(x(columns[i].end), y(base[i]));
        context.lineTo(x(columns[i].begin), y(base[i]));
        base[i] += line.atHighest[columns[i].step][c];
      }
      context.fillStyle = categoryFill(context, category);
      context.fill();
    });
  }

  outline(context, x, y, line = this.app.model.line, columns = this.columns(), dash = []) {
    context.beginPath();
    for (const { begin, end, step } of columns) {
      context.lineTo(x(begin), y(line.highest[step]));
      context.lineTo(x(end), y(line.highest[step]));
    }
    context.strokeStyle = colour("ink");
    context.lineWidth = dash.length > 0 ? 2 : 1;
    context.setLineDash(dash);
    context.stroke();
    context.setLineDash([]);
  }

  // Each storage by itself, where few steps are in sight.
  storages(context, x, y) {
    const { model, state } = this.app, [from, to] = this.range;
    if (to - from > fewSteps) return;
    const { graph, line } = model;
    let left_over = mostRectangles;
    for (let step = from; step < to && left_over > 0; ++step) {
      const live = liveStorages(graph, line.lastEvent[step]).sort((a, b) =>
        indexOfCategory(graph.storages[a]) - indexOfCategory(graph.storages[b]) || a - b);
      left_over -= live.length;
      let base = line.unwatched;
      for (const id of live) {
        const next = base + graph.storages[id].bytes;
        const box = [x(step), y(next), x(step + 1) - x(step), y(base) - y(next)];
        if (box[3] >= 2) this.storage(context, box, `storage:${id}` === state.value.select);
        base = next;
      }
    }
  }

  storage(context, [x, y, width, tall], isSelected) {
    context.strokeStyle = colour(isSelected ? "accent" : "panel");
    context.lineWidth = isSelected ? 2.5 : 0.6;
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x + width, y);
    if (isSelected) {
      context.moveTo(x, y + tall);
      context.lineTo(x + width, y + tall);
    }
    context.stroke();
  }

  other(context, x, y) {
    const { model, other } = this.app;
    if (!other?.line) return;
    const place = alignment(other.graph, model.graph);
    const columns = this.columns(other.line, [0, other.graph.steps.length]);
    this.outline(context, (step) => x(place(step)), y, other.line, columns, [6, 4]);
  }

  borders(context, x) {
    context.strokeStyle = colour("ink");
    context.lineWidth = 1;
    for (const { from, name } of phases(this.app.model.graph)) {
      if (from === 0 || name === "other") continue;
      context.beginPath();
      context.moveTo(Math.round(x(from)) + 0.5, top - 6);
      context.lineTo(Math.round(x(from)) + 0.5, top + plotHeight + 2 * strip + 6);
      context.stroke();
    }
  }

  cursor(context, x) {
    const step = this.step();
    if (step < 0) return;
    context.fillStyle = colour("select");
    context.fillRect(x(step), top - 6, Math.max(x(step + 1) - x(step), 2), plotHeight + 6);
  }

  strips(context, x) {
    const { graph, lives } = this.app.model;
    let at = top + plotHeight + 4;
    drawBands(context, phases(graph), x, at, strip - 2, false);
    at += strip;
    drawBands(context, moduleBands(graph), x, at, strip - 2, true);
    at += strip + 2;
    const [kind, id] = this.app.state.value.select.split(":");
    context.textAlign = "left";
    context.fillStyle = colour("quiet");
    const isLife = kind === "storage" && lives[Number(id)];
    const [from, to] = this.range;
    context.fillText(`steps ${formatCount(from)} to ${formatCount(to - 1)}` +
      (isLife ? "; the bar: the life of what is selected, hatched where it was needed no more" : ""),
    left, at + lifeHeight + 12);
    if (!isLife) return;
    context.save();
    context.beginPath();
    context.rect(left, at, this.width - left - right, lifeHeight);
    context.clip();
    drawLife(context, isLife, graph.steps.length, x, at, lifeHeight - 2);
    context.restore();
  }

  markPeak(x, y) {
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

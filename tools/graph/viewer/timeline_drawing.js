// The timeline as a drawing: areas by category, single storages where few steps are in sight, the
// outline of what is compared, and the strips below.
import { categoryFill, colour } from "./colours.js";
import { canvasContext } from "./dom.js";
import { categories } from "./graph.js";
import { formatCount, formatUnits } from "./format.js";
import { partOf } from "./lists.js";
import { indexOfCategory, liveStorages } from "./replay.js";
import { numberIn } from "./state.js";
import { drawBands, drawLife, moduleBands, phases } from "./timeline_strips.js";

/** Where the plot stands in the canvas, in CSS pixels. */
export const plotArea = { left: 78, right: 14, top: 30, height: 230 };

const { left, right, top } = plotArea, bottom = plotArea.top + plotArea.height;
const strip = 18, lifeHeight = 10;
const height = bottom + 2 * strip + lifeHeight + 30;
// Within so many steps each storage is drawn by itself, as long as there are not too many.
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

class Drawing {
  constructor(canvas, app, width, range) {
    Object.assign(this, { app, model: app.model, width, range, select: app.state.value.select,
      plotWidth: width - left - right, context: canvasContext(canvas, width, height) });
    this.most = this.highest(range) * 1.04;
    const [from, to] = range;
    this.x = (step) => left + (step - from) / (to - from) * this.plotWidth;
    this.x.range = [left, left + this.plotWidth];
    this.y = (bytes) => top + plotArea.height * (1 - bytes / this.most);
  }

  // The most that is in sight, of the other graph as long as all steps are.
  highest([from, to]) {
    const { line } = this.model, isAll = to - from === line.highest.length;
    let highest = isAll ? Math.max(line.peak, this.app.other?.line?.peak ?? 0) : 1;
    for (let step = from; step < to; ++step) highest = Math.max(highest, line.highest[step]);
    return Math.max(highest, 1);
  }

  draw() {
    const { context } = this;
    this.axis();
    context.save();
    context.beginPath();
    context.rect(left, 0, this.plotWidth, height);
    context.clip();
    this.areas();
    this.outline(this.columns(), this.model.line, this.x, []);
    this.storages();
    this.other();
    this.borders();
    this.cursor();
    context.restore();
    this.strips();
  }

  line(x1, y1, x2, y2) {
    this.context.beginPath();
    this.context.moveTo(x1, y1);
    this.context.lineTo(x2, y2);
    this.context.stroke();
  }

  axis() {
    const { context, width, y } = this;
    Object.assign(context, { font: "11px system-ui, sans-serif", textAlign: "right",
      textBaseline: "middle", lineWidth: 1, fillStyle: colour("quiet"),
      strokeStyle: colour("line") });
    for (const tick of ticks(this.most)) {
      context.fillText(formatUnits(tick), left - 6, y(tick));
      this.line(left, Math.round(y(tick)) + 0.5, width - right, Math.round(y(tick)) + 0.5);
    }
  }

  // The steps to draw, one for each pixel at most: that in which the most was live.
  columns(line = this.model.line, [from, to] = this.range) {
    const count = Math.min(to - from, Math.max(1, Math.floor(this.plotWidth)));
    const list = [];
    for (let k = 0; k < count; ++k) {
      const [begin, end] = partOf(k, count, to - from).map((at) => from + at);
      let best = begin;
      for (let step = begin; step < end; ++step)
        if (line.highest[step] > line.highest[best]) best = step;
      list.push({ begin, end, step: best });
    }
    return list;
  }

  areas() {
    const { context, x, y } = this, { line } = this.model, columns = this.columns();
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

  outline(columns, line, x, dash) {
    const { context, y } = this;
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

  // ---- each storage by itself ----

  storages() {
    const { graph, line } = this.model, [from, to] = this.range;
    if (to - from > fewSteps) return;
    let rest = mostRectangles;
    for (let step = from; step < to && rest > 0; ++step) {
      const live = liveStorages(graph, line.lastEvent[step]).sort((a, b) =>
        indexOfCategory(graph.storages[a]) - indexOfCategory(graph.storages[b]) || a - b);
      rest -= live.length;
      let base = line.unwatched;
      for (const id of live) {
        const next = base + graph.storages[id].bytes;
        this.storage(id, step, this.y(next), this.y(base));
        base = next;
      }
    }
  }

  // Hatched where it is saved, though what it was saved for has run.
  storage(id, step, high, low) {
    if (low - high < 2) return;
    const { context } = this, { lives, graph } = this.model;
    const isSelected = `storage:${id}` === this.select;
    const x1 = this.x(step), x2 = this.x(step + 1);
    context.strokeStyle = colour(isSelected ? "accent" : "panel");
    context.lineWidth = isSelected ? 2.5 : 0.6;
    this.line(x1, high, x2, high);
    if (isSelected) this.line(x1, low, x2, low);
    const { lastNeeded } = lives[id];
    if (graph.storages[id].category !== "saved" || lastNeeded < 0 || step <= lastNeeded) return;
    context.strokeStyle = colour("accent");
    context.lineWidth = 1;
    this.line(x1, low, x2, high);
  }

  // ---- over the areas ----

  other() {
    const { other } = this.app;
    if (!other?.line) return;
    const place = alignment(other.graph, this.model.graph);
    this.outline(this.columns(other.line, [0, other.graph.steps.length]), other.line,
      (step) => this.x(place(step)), [6, 4]);
  }

  borders() {
    this.context.strokeStyle = colour("quiet");
    this.context.lineWidth = 1;
    this.context.setLineDash([2, 3]);
    for (const { from, name } of phases(this.model.graph)) {
      if (from === 0 || name === "other") continue;
      const x = Math.round(this.x(from)) + 0.5;
      this.line(x, top - 6, x, bottom + 2 * strip + 6);
    }
    this.context.setLineDash([]);
  }

  cursor() {
    const step = numberIn(this.select, "step"), [from, to] = this.range;
    if (step >= from && step < to) this.mark(step, step + 1);
  }

  /** Lays a veil over some steps, between two lines. */
  mark(from, to) {
    const { context } = this, high = top - 6;
    const x1 = this.x(Math.min(from, to)), x2 = Math.max(this.x(Math.max(from, to)), x1 + 2);
    context.fillStyle = colour("select");
    context.fillRect(x1, high, x2 - x1, plotArea.height + 6);
    context.strokeStyle = colour("link");
    context.lineWidth = 2;
    for (const x of [x1 - 1, x2 + 1]) this.line(x, high, x, bottom);
  }

  // ---- below them ----

  strips() {
    const { context, x, model } = this;
    drawBands(context, phases(model.graph), x, bottom + 4, strip - 2, false);
    drawBands(context, moduleBands(model.graph), x, bottom + 4 + strip, strip - 2, true);
    const at = bottom + 6 + 2 * strip, [from, to] = this.range;
    const life = model.lives[numberIn(this.select, "storage")];
    context.textAlign = "left";
    context.fillStyle = colour("quiet");
    context.fillText([`steps ${formatCount(from)} to ${formatCount(to - 1)}`,
      to - from <= fewSteps && "each storage by itself, struck through where it is saved and " +
        "needed no more", life && "the bar: the life of what is selected, hatched likewise"]
      .filter(Boolean).join("; "), left, at + lifeHeight + 12);
    if (!life) return;
    context.save();
    context.beginPath();
    context.rect(left, at, this.plotWidth, lifeHeight);
    context.clip();
    drawLife(context, life, model.graph.steps.length, x, at, lifeHeight - 2);
    context.restore();
  }
}

/** Draws the steps of `range` = [from, to); the drawing tells where they stand and marks them. */
export function drawTimeline(canvas, app, width, range) {
  const drawing = new Drawing(canvas, app, width, range);
  drawing.draw();
  return drawing;
}

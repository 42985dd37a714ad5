// The steps of a graph, with the births and deaths in each, to be edited; for what-if questions.
// The twin of script.h: the same edits give the same events in the same order.
import { append } from "./lists.js";

/** Where in a step of the original: at its start, at its end, or in what is inserted after it. */
export const part = { start: 0, end: 1, after: 2 };

export class Script {
  /** Edits `graph`, whose rows it may replace but does not change. */
  constructor(graph) {
    this.graph = graph;
    this.forward = graph.nodes.map(() => -1);   // by node: the step that recorded it
    this.backward = graph.nodes.map(() => -1);  // by node: the first step that ran its rule
    this.birth = graph.storages.map(() => -1);
    this.death = graph.storages.map(() => -1);
    this.own = graph.steps.map(() => []);
    this.gone = new Set();      // storages
    this.reborn = new Set();    // storages
    this.moved = new Map();     // storages, and where they die now
    this.earliest = new Map();  // storages, and where they may die if that is moved
    this.without = new Set();   // steps
    this.before = new Map();    // steps, and what is inserted there
    this.after = new Map();
    this.births = new Map();    // places
    for (const event of graph.events) {
      this.own[event.step].push(event);
      (event.birth ? this.birth : this.death)[event.storage] = event.step;
    }
    for (let i = graph.steps.length; i-- > 0;) {
      const { node, phase } = graph.steps[i];
      if (node >= 0 && phase === "forward") this.forward[node] = i;
      if (node >= 0 && phase === "backward") this.backward[node] = i;
    }
  }

  get hasEvents() { return this.graph.events.length > 0; }

  addStorage(bytes, category, operation) {
    this.graph.storages.push({ bytes, category, operation });
    this.birth.push(-1);
    this.death.push(-1);
    return this.graph.storages.length - 1;
  }

  /** A storage of the same size, which no event names yet. */
  copy(storage) {
    const { bytes, category, operation } = this.graph.storages[storage];
    return this.addStorage(bytes, category, operation);
  }

  beBorn(storage, step, where) { append(this.births, 3 * step + where, storage); }

  /** Moves the birth. */
  moveBirth(storage, step, where) {
    this.reborn.add(storage);
    this.beBorn(storage, step, where);
  }

  /** Moves the death; of several calls the latest place counts. */
  die(storage, step, where) {
    const place = 3 * step + where;
    if (!(this.moved.get(storage) >= place)) this.moved.set(storage, place);
  }

  /** Where the death is moved, it is not moved in front of this place. */
  liveTo(storage, step, where) {
    this.earliest.set(storage, Math.max(this.earliest.get(storage) ?? -1, 3 * step + where));
  }

  remove(storage) { this.gone.add(storage); }
  /** The step goes; its events that are left stand in the next one. */
  removeStep(step) { this.without.add(step); }

  insertBefore(step, tick) { append(this.before, step, tick); }
  insertAfter(step, tick) { append(this.after, step, tick); }

  /** Writes steps and events back to the graph. */
  finish() {
    this.deaths = new Map();
    for (const [storage, place] of [...this.moved].sort((a, b) => a[0] - b[0]))
      append(this.deaths, Math.max(place, this.earliest.get(storage) ?? -1), storage);
    this.steps = [];
    this.events = [];
    let events = [];
    const flush = (step) => {
      this.end(step, events);
      events = [];
    };
    for (let i = 0; i < this.own.length; ++i) {
      for (const tick of this.before.get(i) ?? []) this.end(tick.step, tick.events);
      this.emit(3 * i + part.start, events);
      for (const event of this.own[i]) if (this.stays(event)) events.push(event);
      this.emit(3 * i + part.end, events);
      if (!this.without.has(i)) flush(this.graph.steps[i]);
      (this.after.get(i) ?? []).forEach((tick, k) => {
        events.push(...tick.events);
        if (k === 0) this.emit(3 * i + part.after, events);
        flush(tick.step);
      });
    }
    if (events.length > 0) flush({ phase: "other", operation: "", module: "", node: -1 });
    this.graph.steps = this.steps;
    this.graph.events = this.events;
  }

  stays(event) {
    if (this.gone.has(event.storage)) return false;
    return !(event.birth ? this.reborn : this.moved).has(event.storage);
  }

  emit(place, events) {
    for (const [list, birth] of [[this.births, true], [this.deaths, false]])
      for (const storage of list.get(place) ?? [])
        if (!this.gone.has(storage)) events.push({ storage, birth });
  }

  end(step, events) {
    for (const { storage, birth } of events)
      this.events.push({ step: this.steps.length, storage, birth });
    this.steps.push(step);
  }
}

// What the page shows, kept in the part of its address behind "#": a copied address opens the same
// view, and the browser's own back and forward buttons work.
import { isChange } from "./whatif.js";

const defaults = {
  select: "",        // "storage:3", "packing:0", "node:7", "module:layers.0", "step:12"
  query: "",         // of the saved tensors
  only: [],          // their filters that are ticked
  sort: "-bytes",    // their order
  modules: "",       // order of the modules
  toggled: [],       // modules that are open or closed against the rule
  unfolded: [],      // runs of alike modules that are shown one by one
  tape: [],          // modules that are open on the tape
  colour: "",        // what its colours tell
  shown: [],         // what is drawn there when it is asked for: "inputs"
  range: [],         // of steps in the timeline; all when empty
  changes: [],       // what-if: {kind, pattern}
  sizes: "",         // "B=8 T=128"
};

const lists = ["only", "toggled", "unfolded", "tape", "shown"];
const texts = ["select", "query", "sort", "modules", "sizes", "colour"];

/** The number in the key of what is selected, 12 of "step:12"; -1 where that is of another kind. */
export const numberIn = (key, kind) =>
  (key.startsWith(`${kind}:`) ? Number(key.slice(kind.length + 1)) : -1);

/** The names and values in the page's address. */
export const parametersIn = (hash) => new URLSearchParams(hash.replace(/^#/, ""));

/** Names in the page's address that it does not know, each once. */
export const unknownNames = (hash) => [...new Set(parametersIn(hash).keys())].filter((name) =>
  !texts.includes(name) && !lists.includes(name) && name !== "range" &&
  !isChange({ kind: name }));

function read(hash) {
  const parameters = parametersIn(hash);
  const state = structuredClone(defaults);
  for (const name of texts) state[name] = parameters.get(name) ?? defaults[name];
  for (const name of lists) state[name] = parameters.getAll(name);
  const range = (parameters.get("range") ?? "").split("-").map(Number);
  if (range.length === 2 && range.every(Number.isInteger) && range[0] < range[1])
    state.range = range;
  for (const [kind, pattern] of parameters)
    if (isChange({ kind, pattern })) state.changes.push({ kind, pattern });
  return state;
}

function write(state) {
  const parameters = new URLSearchParams();
  for (const name of texts)
    if (state[name] !== defaults[name]) parameters.append(name, state[name]);
  for (const name of lists) for (const entry of state[name]) parameters.append(name, entry);
  if (state.range.length > 0) parameters.append("range", state.range.join("-"));
  for (const { kind, pattern } of state.changes) parameters.append(kind, pattern);
  return parameters.toString();
}

export class State {
  /** `initial`: what the page was written with. `onChange` is called after every change. */
  constructor(initial, onChange) {
    Object.assign(defaults, initial);
    this.onChange = onChange;
    this.value = read(location.hash);
    addEventListener("hashchange", () => {
      if (location.hash.slice(1) === write(this.value)) return;
      this.value = read(location.hash);
      this.onChange(this.value);
    });
  }

  /** Changes some of it. A new selection can be taken back by the browser's back button. */
  set(changes) {
    const isStep = "select" in changes && changes.select !== this.value.select;
    this.value = { ...this.value, ...changes };
    const text = write(this.value);
    if (text !== location.hash.slice(1)) this.show(text, isStep);
    this.onChange(this.value);
  }

  // An address that ends in "#" would stand for the top of the page, and scroll to it.
  show(text, isStep) {
    const address = text === "" ? location.pathname + location.search : `#${text}`;
    if (isStep) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
  }

  /** Puts an entry into a list, or takes it out. */
  toggle(name, entry) {
    const list = this.value[name];
    this.set({ [name]: list.includes(entry) ? list.filter((other) => other !== entry)
      : [...list, entry] });
  }
}

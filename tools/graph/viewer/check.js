// What a graph's file must hold so that no figure of the page is wrong: the rules of the reader and
// of validate.cpp that figures rest on. Everything else of a file is shown as it stands there.

const isCount = (value) => Number.isInteger(value) && value >= 0;
const areIntegers = (list) => Array.isArray(list) && list.every(Number.isInteger);

const phases = ["forward", "backward", "update", "other"];

class Checker {
  // `most`: that sums may come to.
  constructor(file, { categories, sizes, most }) {
    Object.assign(this, { file, categories, sizes, most, bytes: 0, flops: 0 });
  }

  run() {
    this.each("storages", (row) => this.storage(row));
    this.each("packings", ({ bytes }) => this.addUp("bytes", bytes), []);
    this.each("values", (row) => this.value(row));
    this.each("nodes", (row) => this.node(row));
    this.each("saved", (row) => this.slot(row));
    this.each("steps", (row) => this.step(row), []);
    this.lives = this.file.storages.map(() => ({ first: -1, last: Infinity }));
    this.last = 0;
    this.each("events", (row) => this.event(row), []);
    this.checkLives();
    this.row = null;
    this.table = "live_before";
    this.addUp("bytes", this.file.live_before ?? 0);
  }

  require(holds, broken) {
    if (holds) return;
    throw new Error(`${this.row === null ? "" : `row ${this.row} of `}${this.table}: ${broken}`);
  }

  each(table, check, otherwise) {
    const rows = this.file[table] ?? otherwise;
    Object.assign(this, { table, row: null });
    this.require(Array.isArray(rows), "is missing or is no list");
    rows.forEach((row, i) => {
      this.row = i;
      this.require(row?.id === i, "id is not the row's number");
      check(row);
    });
  }

  // Whether the id is one of a table's rows.
  names(table, id) { return isCount(id) && id < (this.file[table]?.length ?? 0); }

  refer(row, key, table) {
    this.require(this.names(table, row[key]), `${key} names no row of ${table}`);
  }

  referOrNull(row, key, table) {
    if ((row[key] ?? null) !== null) this.refer(row, key, table);
  }

  texts(row, ...keys) {
    for (const key of keys) this.require(typeof row[key] === "string", `${key} is not a string`);
  }

  addUp(sum, part) {
    this.require(isCount(part), `${sum} is not a whole number of at least 0`);
    this.require(part <= this.most - this[sum], `the ${sum} add up to more than 2^53`);
    this[sum] += part;
  }

  storage(row) {
    this.addUp("bytes", row.bytes);
    this.require(this.categories.includes(row.category), "category is not one of those known");
  }

  value(row) {
    const { shape, strides, dtype } = row;
    this.texts(row, "name");
    this.refer(row, "storage", "storages");
    this.referOrNull(row, "producer", "nodes");
    this.require(Object.hasOwn(this.sizes, dtype), "dtype is not one of those known");
    this.require(areIntegers(shape) && areIntegers(strides) && shape.length === strides.length &&
      shape.every((dim) => dim >= 0), "shape and strides do not fit one another");
    this.require(Number.isInteger(row.offset), "offset is no whole number");
    this.require(shape.includes(0) || this.isInside(row), "the window reaches outside its storage");
  }

  // Whether the elements that the strides reach lie in the storage.
  isInside({ shape, strides, offset, storage, dtype }) {
    let first = offset, last = offset;
    shape.forEach((dim, i) => {
      const reach = (dim - 1) * strides[i];
      if (reach < 0) first += reach;
      else last += reach;
    });
    return first >= 0 && (last + 1) * this.sizes[dtype] <= this.file.storages[storage].bytes;
  }

  node(row) {
    this.texts(row, "operation", "module");
    this.require(Array.isArray(row.attributes), "attributes is no list");
    this.require(Array.isArray(row.inputs) && row.inputs.every((id) => this.names("values", id)),
      "inputs names no row of values");
    this.require(row.inputs.every((id) => (this.file.values[id].producer ?? -1) < row.id),
      "inputs names a value that this node or a later one makes");
    this.refer(row, "output", "values");
    this.inputs(row.donatable ?? [], row, "donatable");
    this.addUp("flops", row.flops);
  }

  inputs(list, { inputs }, key) {
    this.require(Array.isArray(list) && list.every((at) => isCount(at) && at < inputs.length),
      `${key} names no input of the node`);
  }

  slot(row) {
    this.texts(row, "slot", "reason");
    this.refer(row, "node", "nodes");
    this.refer(row, "value", "values");
    if (row.packing !== undefined) this.refer(row, "packing", "packings");
    this.inputs(row.for_inputs, this.file.nodes[row.node], "for_inputs");
  }

  step(row) {
    this.texts(row, "operation", "module");
    this.require(phases.includes(row.phase), "phase is not one of those known");
    this.referOrNull(row, "node", "nodes");
  }

  // A storage is born at most once, before it dies, and dies at most once.
  event(row) {
    this.refer(row, "step", "steps");
    this.require(row.step >= this.last, "the steps are not in order");
    this.last = row.step;
    this.refer(row, "storage", "storages");
    this.require(typeof row.birth === "boolean", "birth is not true or false");
    const life = this.lives[row.storage];
    this.require(life.last === Infinity && (!row.birth || life.first < 0),
      "the storage is born twice or dies twice");
    life[row.birth ? "first" : "last"] = row.step;
  }

  // What an operation reads and makes lives in the step that records it, and what its slots keep
  // until its rule has run.
  checkLives() {
    const { values, steps = [] } = this.file, recorded = new Map(), all = new Map();
    const add = (map, node, step) => map.set(node, { first: map.get(node)?.first ?? step,
      last: step });
    steps.forEach(({ node, phase }, step) => {
      add(all, node, step);
      if (phase === "forward") add(recorded, node, step);
    });
    const live = (value, span) => {
      const { first, last } = this.lives[values[value].storage];
      return !span || (first <= span.first && span.last <= last);
    };
    this.each("nodes", ({ id, inputs, output }) => this.require([...inputs, output].every((value) =>
      live(value, recorded.get(id))), "the storage of an input or of the output is not live in " +
      "the step that records the node"));
    this.each("saved", ({ node, value, packing }) => this.require(packing !== undefined ||
      live(value, all.get(node)), "the storage of the value is not live in all steps of the node"));
  }
}

/**
 * Throws an Error that names the row and the rule that it breaks. `known`: {categories, sizes, most};
 * sizes are bytes of an element by dtype, most is what the sums of bytes and of flops may come to.
 */
export const checkFile = (file, known) => new Checker(file, known).run();

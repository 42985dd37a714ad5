// The graph, drawn as the tape that it is: the forward pass down the left side, the backward pass
// up the right side, and between them, once each, what is saved by the one for the other.
import { h, panel } from "./dom.js";
import { formatCount, plural } from "./format.js";
import { TapeChanges } from "./tape_changes.js";
import { Colouring, colourings } from "./tape_colours.js";
import { drawTape } from "./tape_drawing.js";
import { layoutTape, mostRows } from "./tape_layout.js";

class TapePanel {
  constructor(app) {
    this.app = app;
    this.uses = ["tape", "select", "colour", "shown"];
    this.figure = h("div", { class: "drawing" });
    this.note = h("p", { class: "about", role: "status" });
    this.colour = h("select", { id: "tape-colour",
      on: { change: () => app.state.set({ colour: this.colour.value }) } },
    colourings.map(([name, text]) => h("option", { value: name }, text)));
    this.inputs = h("input", { type: "checkbox", id: "tape-inputs",
      on: { change: () => app.state.toggle("shown", "inputs") } });
    this.legend = h("div", { class: "legend", id: "tape-legend" });
    this.element = panel("tape", "The tape", "Top to bottom: the forward pass (left). Bottom to " +
      "top: the backward pass (right). Between them stands what is saved, once each, in the row " +
      "of what made it; dashed lines lead to the rules that read it. Click a module to unfold it.",
    h("div", { class: "line" }, h("label", {}, "colour tells ", this.colour),
      h("label", {}, this.inputs, " parameters and inputs that are saved, too")),
    this.legend, this.note, this.figure);
  }

  update() {
    const { app } = this, { colour, shown, tape } = app.state.value;
    const changes = new TapeChanges(app);
    const withInputs = shown.includes("inputs");
    const layout = layoutTape(app.model, tape, { added: changes.added, withInputs });
    const colours = new Colouring(colour, app.model, layout);
    this.colour.value = colours.name;
    this.inputs.checked = withInputs;
    this.tell(layout);
    this.draw(drawTape(app, layout, colours, changes, this.figure.clientWidth));
    this.legend.replaceChildren(...colours.legend().flat().filter(Boolean));
  }

  tell(layout) {
    const notes = layout.rows.length > 0 ? [] : ["The tape is empty: no operation was recorded."];
    if (layout.left > 0) notes.push(`${plural(layout.left, "more row")} not drawn: the drawing ` +
      `stops after ${formatCount(mostRows)}. Fold a module to see what follows.`);
    if (this.app.other) notes.push("Thick borders tell what differs: red what is gone, yellow " +
      "what changed, or a module in which something did, and green, with a + and the bytes that " +
      `they keep, operations of the graph ${this.app.otherName === "then" ? "with the change"
        : "after"} alone.`);
    this.note.textContent = notes.join(" ");
    this.note.hidden = notes.length === 0;
  }

  // The keys stay where they are.
  draw(drawing) {
    const focused = this.figure.contains(document.activeElement)
      ? document.activeElement.dataset.key : null;
    this.figure.replaceChildren(drawing);
    if (focused) this.figure.querySelector(`[tabindex][data-key=${CSS.escape(focused)}]`)?.focus();
  }
}

export const tapePanel = (app) => new TapePanel(app);

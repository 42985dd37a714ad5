// What the pointer rests on, or the keyboard is at, is shown in the details; a click or Enter keeps
// it there.
import { h } from "./dom.js";

const previewed = "main [role=row][data-key], #tape svg [data-key]";
const rest = 120;  // milliseconds, so that a pointer on its way elsewhere changes nothing

// Its key; "" of nothing that the details can show.
const keyUnder = ({ target }) => target.closest?.(previewed)?.dataset.key ?? "";

export class Preview {
  /** `details`: the panel, whose contents(key) makes elements, or null for what is not there. */
  constructor(details) {
    Object.assign(this, { details, under: "", place: "", waiting: 0, scrolled: 0 });
    this.body = h("div", { class: "details-body", id: "preview", hidden: true });
    this.note = h("span", { class: "about", hidden: true }, "click or Enter keeps it");
    addEventListener("pointermove", (event) => this.move(event));
    document.documentElement.addEventListener("pointerleave", () => this.turnTo(""));
    addEventListener("rowat", ({ detail }) => this.turnTo(detail));
    addEventListener("focusin", (event) => {
      if (event.target.matches?.(":focus-visible")) this.turnTo(keyUnder(event));
    });
  }

  // A finger does not hover, and a page that moves below the pointer is no move of it.
  move(event) {
    const place = `${event.screenX} ${event.screenY}`;
    if (event.pointerType === "touch" || event.buttons !== 0 || place === this.place) return;
    this.place = place;
    this.turnTo(keyUnder(event));
  }

  turnTo(key) {
    if (key === this.under) return;
    this.under = key;
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.show(key), rest);
  }

  show(key) {
    const { body, element, selected } = this.details;
    const isBeside = getComputedStyle(element).position === "sticky";
    const isUsed = body.contains(document.activeElement);
    const contents = key !== "" && key !== selected && isBeside && !isUsed &&
      this.details.contents(key);
    if (!contents) {
      this.goBack();
      return;
    }
    if (this.body.hidden) this.scrolled = element.scrollTop;
    this.body.replaceChildren(...contents);
    this.swap(true);
    element.scrollTop = 0;
  }

  goBack() {
    if (this.body.hidden) return;
    this.end();
    this.details.element.scrollTop = this.scrolled;
  }

  /** Shows what is selected. */
  end() {
    clearTimeout(this.waiting);
    this.swap(false);
    this.body.replaceChildren();
  }

  swap(isShown) {
    this.details.body.hidden = isShown;
    this.body.hidden = this.note.hidden = !isShown;
    this.details.element.classList.toggle("previews", isShown);
  }
}

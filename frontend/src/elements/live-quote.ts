/**
 * `<live-quote>` around the form of a new job: a moment after the description changed it dispatches `describe` on the form,
 * which asks for a new quote. Choosing a point of the quote is not a change of the description. Once at the start too.
 */
const PAUSE_MS = 600;

export class LiveQuote extends HTMLElement {
  private timer = 0;

  connectedCallback(): void {
    const heard = (event: Event): void => {
      const target = event.target as Element;
      if (!target.closest("#part-quote")) this.ask(PAUSE_MS);
    };
    this.addEventListener("input", heard);
    this.addEventListener("change", heard);
    this.ask(0);
  }

  disconnectedCallback(): void {
    window.clearTimeout(this.timer);
  }

  private ask(pause: number): void {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => {
      this.querySelector("form")?.dispatchEvent(new CustomEvent("describe"));
    }, pause);
  }
}

/** `<run-clock from="ISO" to="ISO?">`: elapsed time as 1:02:03, ticking while there is no end. A live region that comes back empty is filled at once. */
export function elapsedText(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60), seconds % 60];
  const two = (n: number): string => String(n).padStart(2, "0");
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

export class RunClock extends HTMLElement {
  static observedAttributes = ["from", "to"];
  private timer = 0;
  private readonly watcher = new MutationObserver(() => {
    if (!this.textContent) this.tick();
  });

  connectedCallback(): void {
    this.tick();
    this.watcher.observe(this, { childList: true, characterData: true, subtree: true });
  }

  attributeChangedCallback(): void {
    if (this.isConnected) this.tick();
  }

  disconnectedCallback(): void {
    this.watcher.disconnect();
    window.clearTimeout(this.timer);
  }

  private tick(): void {
    window.clearTimeout(this.timer);
    const from = Date.parse(this.getAttribute("from") ?? "");
    if (Number.isNaN(from)) return;
    const end = this.getAttribute("to");
    this.textContent = elapsedText((end ? Date.parse(end) : Date.now()) - from);
    if (!end) this.timer = window.setTimeout(() => this.tick(), 1_000);
  }
}

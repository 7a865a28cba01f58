/**
 * `<since-time><time datetime="…">…</time></since-time>`: keeps "3 minutes ago" true in the page's language. The server
 * has already written the exact time; it moves into the title, and is what a page without the bundle shows. When a live
 * region puts the server's text back, it is replaced again before anything is painted.
 */
const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["second", 60],
  ["minute", 60],
  ["hour", 24],
  ["day", 30],
  ["month", 12],
  ["year", Number.POSITIVE_INFINITY],
];

export function sinceText(ms: number, language: string): string {
  let amount = ms / 1000;
  for (const [unit, size] of STEPS) {
    if (Math.abs(amount) < size) {
      return new Intl.RelativeTimeFormat(language, { numeric: "auto" }).format(Math.trunc(amount), unit);
    }
    amount /= size;
  }
  return "";
}

export class SinceTime extends HTMLElement {
  private timer = 0;
  private shown = "";
  private readonly watcher = new MutationObserver(() => {
    if (this.querySelector("time")?.textContent !== this.shown) this.tick();
  });

  connectedCallback(): void {
    this.tick();
    this.watcher.observe(this, { subtree: true, childList: true, characterData: true });
  }

  disconnectedCallback(): void {
    this.watcher.disconnect();
    window.clearTimeout(this.timer);
  }

  private tick(): void {
    window.clearTimeout(this.timer);
    const time = this.querySelector("time");
    if (!time) return;
    const age = Date.parse(time.dateTime) - Date.now();
    if (time.textContent !== this.shown) time.title = time.textContent ?? "";
    this.shown = sinceText(age, document.documentElement.lang);
    if (time.textContent !== this.shown) time.textContent = this.shown;
    this.timer = window.setTimeout(() => this.tick(), Math.abs(age) < 3_600_000 ? 5_000 : 60_000);
  }
}

/**
 * `<since-time><time datetime="…">…</time></since-time>`: keeps "3 minutes ago" true in the page's language. The server
 * has already written the exact time; it stays in the title and is what a page without the bundle shows.
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

  connectedCallback(): void {
    const tick = (): void => {
      const time = this.querySelector("time");
      if (!time) return;
      const age = Date.parse(time.dateTime) - Date.now();
      time.title ||= time.textContent ?? "";
      time.textContent = sinceText(age, document.documentElement.lang);
      this.timer = window.setTimeout(tick, Math.abs(age) < 3_600_000 ? 5_000 : 60_000);
    };
    tick();
  }

  disconnectedCallback(): void {
    window.clearTimeout(this.timer);
  }
}

/**
 * `<log-view src="…" data-live-state="running">`: a job's log, fetched from the byte offset that is already shown.
 * The answer carries `X-Log-Next` (the next offset) and `X-Log-More` ("1": ask again at once, "end": nothing will follow).
 * Lines live in blocks of 500 with `content-visibility: auto`, so that 100,000 of them stay scrollable.
 */
import { freshPen, pieces } from "../ansi.ts";

const BLOCK_LINES = 500;
const FOLLOW_MS = 1_000;
const QUIET_MS = 4_000;

export class LogView extends HTMLElement {
  private offset = 0;
  private rest = "";
  private block: HTMLElement | null = null;
  private lines = 0;
  private timer = 0;
  private busy = false;
  private quiet = 0;
  private readonly pen = freshPen();
  private readonly decoder = new TextDecoder();

  connectedCallback(): void {
    this.setAttribute("hx-morph-skip", "");
    this.addEventListener("changed", () => this.fetchMore());
    void this.fetchMore();
  }

  disconnectedCallback(): void {
    window.clearTimeout(this.timer);
  }

  private async fetchMore(): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    window.clearTimeout(this.timer);
    let state = "";
    try {
      const url = new URL(this.getAttribute("src") ?? "", location.href);
      url.searchParams.set("offset", String(this.offset));
      const answer = await fetch(url, { headers: { accept: "text/plain" } });
      if (answer.ok) {
        const bytes = new Uint8Array(await answer.arrayBuffer());
        this.offset = Number(answer.headers.get("x-log-next") ?? this.offset + bytes.length);
        state = answer.headers.get("x-log-more") ?? "";
        this.quiet = bytes.length ? 0 : this.quiet + 1;
        this.write(this.decoder.decode(bytes, { stream: true }));
        if (state === "end") this.writeRest();
      }
    } finally {
      this.busy = false;
    }
    if (state === "end") {
      this.dataset.ended = "";
      return;
    }
    const pause = state === "1" ? 0 : this.quiet > 5 ? QUIET_MS : FOLLOW_MS;
    this.timer = window.setTimeout(() => void this.fetchMore(), pause);
  }

  private write(text: string): void {
    const all = (this.rest + text).split("\n");
    this.rest = all.pop() ?? "";
    if (all.length === 0) return;
    const atEnd = this.scrollHeight - this.scrollTop - this.clientHeight < 40;
    for (const line of all) this.addLine(line);
    if (atEnd) this.scrollTop = this.scrollHeight;
  }

  private writeRest(): void {
    if (this.rest) this.addLine(this.rest);
    this.rest = "";
  }

  private addLine(line: string): void {
    if (!this.block || this.lines % BLOCK_LINES === 0) {
      this.querySelector("[data-empty]")?.remove();
      this.block = document.createElement("pre");
      this.block.className = "log-block";
      this.appendChild(this.block);
    }
    this.lines += 1;
    for (const piece of pieces(line.replace(/\r$/, ""), this.pen)) {
      if (!piece.className) {
        this.block.append(piece.text);
        continue;
      }
      const span = document.createElement("span");
      span.className = piece.className;
      span.textContent = piece.text;
      this.block.append(span);
    }
    this.block.append("\n");
  }
}

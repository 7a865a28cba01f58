/**
 * Live pages: the socket says "something changed", the HTML comes over HTTP.
 *
 * The wire, agreed with `scheduling.consumers`:
 *   browser → server   {"subscribe": ["job.job_…", "org.org_….jobs"]}      any number of times, topics add up
 *   server → browser   {"topic": "job.job_…", "version": 17}               version grows per topic; a known one is old news
 *   server → browser   {"refused": ["job.job_…"]}                           not yours, or unknown: never pushed
 *
 * A region is an element with `data-live="topic topic"` and `hx-get hx-trigger="changed" hx-swap="outerMorph"`. This file
 * dispatches `changed` on the regions of a topic, at most four times a second each. Every (re)connect refreshes all
 * regions once, so nothing that happened while the socket was away is missed. Without a socket the page says so and
 * asks again every ten seconds. A hidden tab asks for nothing; it catches up when it is shown.
 */

export interface Change {
  topic: string;
  version: number | string;
}

export interface Clock {
  now(): number;
  after(ms: number, run: () => void): number;
  cancel(handle: number): void;
}

const realClock: Clock = {
  now: () => Date.now(),
  after: (ms, run) => window.setTimeout(run, ms),
  cancel: (handle) => window.clearTimeout(handle),
};

export const SHORTEST_GAP_MS = 250;
export const POLL_MS = 10_000;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 15_000;
const PATIENCE_MS = 2_500;

/** Which topics the page wants, read from the regions that are on it now. */
export function topicsOf(root: ParentNode): string[] {
  const topics = new Set<string>();
  for (const region of root.querySelectorAll<HTMLElement>("[data-live]")) {
    for (const topic of (region.dataset.live ?? "").split(/\s+/)) if (topic) topics.add(topic);
  }
  return [...topics].sort();
}

/** Exponential back-off with full jitter; `random` is a number in [0, 1). */
export function retryDelay(tries: number, random: number): number {
  const ceiling = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** tries);
  return Math.round(ceiling / 2 + (ceiling / 2) * random);
}

/** Keeps the known version of each topic; says whether a change is news. */
export class Versions {
  private known = new Map<string, number>();

  isNews(change: Change): boolean {
    const version = Number(change.version);
    if (!Number.isFinite(version)) return true;
    if ((this.known.get(change.topic) ?? Number.NEGATIVE_INFINITY) >= version) return false;
    this.known.set(change.topic, version);
    return true;
  }
}

/** Lets one signal per region through at once and folds the rest into one more at the end of the gap. */
export class Throttle {
  private waiting = new Map<Element, number>();
  private last = new Map<Element, number>();

  constructor(
    private readonly clock: Clock,
    private readonly fire: (region: Element) => void,
  ) {}

  ask(region: Element): void {
    if (this.waiting.has(region)) return;
    const since = this.clock.now() - (this.last.get(region) ?? Number.NEGATIVE_INFINITY);
    if (since >= SHORTEST_GAP_MS) {
      this.go(region);
      return;
    }
    this.waiting.set(
      region,
      this.clock.after(SHORTEST_GAP_MS - since, () => this.go(region)),
    );
  }

  private go(region: Element): void {
    this.waiting.delete(region);
    this.last.set(region, this.clock.now());
    this.fire(region);
  }
}

export class Live {
  private socket: WebSocket | null = null;
  private tries = 0;
  private subscribed = new Set<string>();
  private readonly versions = new Versions();
  private readonly throttle: Throttle;
  private missed = false;
  private poll: number | null = null;
  private worry: number | null = null;

  constructor(
    private readonly url: string,
    private readonly root: Document,
    private readonly clock: Clock = realClock,
  ) {
    this.throttle = new Throttle(clock, (region) => region.dispatchEvent(new CustomEvent("changed")));
  }

  start(): void {
    if (topicsOf(this.root).length === 0) return;
    this.root.addEventListener("visibilitychange", () => this.shown());
    window.addEventListener("online", () => this.connect());
    this.connect();
  }

  /** New regions may have come with a swap: ask for their topics too. */
  rescan(): void {
    if (this.socket?.readyState !== WebSocket.OPEN) {
      if (!this.socket) this.connect();
      return;
    }
    const fresh = topicsOf(this.root).filter((topic) => !this.subscribed.has(topic));
    if (fresh.length === 0) return;
    for (const topic of fresh) this.subscribed.add(topic);
    this.socket.send(JSON.stringify({ subscribe: fresh }));
  }

  private connect(): void {
    if (this.socket || topicsOf(this.root).length === 0) return;
    const socket = new WebSocket(this.url);
    this.socket = socket;
    this.worry ??= this.clock.after(PATIENCE_MS, () => this.lost());
    socket.addEventListener("open", () => {
      this.tries = 0;
      this.subscribed.clear();
      this.found();
      this.rescan();
      this.refreshAll();
    });
    socket.addEventListener("message", (event) => this.heard(String(event.data)));
    socket.addEventListener("close", () => {
      this.socket = null;
      this.worry ??= this.clock.after(PATIENCE_MS, () => this.lost());
      this.clock.after(retryDelay(this.tries++, Math.random()), () => this.connect());
    });
  }

  private heard(text: string): void {
    const change = JSON.parse(text) as Partial<Change>;
    if (typeof change.topic !== "string" || change.version === undefined) return;
    if (!this.versions.isNews(change as Change)) return;
    if (this.root.hidden) {
      this.missed = true;
      return;
    }
    for (const region of this.root.querySelectorAll(`[data-live~="${CSS.escape(change.topic)}"]`))
      this.throttle.ask(region);
  }

  private refreshAll(): void {
    if (this.root.hidden) {
      this.missed = true;
      return;
    }
    for (const region of this.root.querySelectorAll("[data-live]")) this.throttle.ask(region);
  }

  private shown(): void {
    if (this.root.hidden || !this.missed) return;
    this.missed = false;
    this.refreshAll();
  }

  private lost(): void {
    this.banner(true);
    this.poll ??= this.clock.after(POLL_MS, () => this.pollOnce());
  }

  private pollOnce(): void {
    this.poll = null;
    if (this.socket?.readyState === WebSocket.OPEN) return;
    this.refreshAll();
    this.poll = this.clock.after(POLL_MS, () => this.pollOnce());
  }

  private found(): void {
    if (this.worry !== null) this.clock.cancel(this.worry);
    if (this.poll !== null) this.clock.cancel(this.poll);
    this.worry = null;
    this.poll = null;
    this.banner(false);
  }

  private banner(shown: boolean): void {
    const banner = this.root.getElementById("connection-lost");
    if (banner) banner.hidden = !shown;
  }
}

import { describe, expect, it } from "vitest";
import { type Clock, retryDelay, SHORTEST_GAP_MS, Throttle, topicsOf, Versions } from "../live.ts";

class HandClock implements Clock {
  private time = 0;
  private due: { at: number; run: () => void; handle: number }[] = [];
  private handles = 0;

  now(): number {
    return this.time;
  }

  after(ms: number, run: () => void): number {
    this.due.push({ at: this.time + ms, run, handle: ++this.handles });
    return this.handles;
  }

  cancel(handle: number): void {
    this.due = this.due.filter((one) => one.handle !== handle);
  }

  pass(ms: number): void {
    this.time += ms;
    const ripe = this.due.filter((one) => one.at <= this.time);
    this.due = this.due.filter((one) => one.at > this.time);
    for (const one of ripe) one.run();
  }
}

describe("topics", () => {
  it("are read once each from all regions", () => {
    document.body.innerHTML = '<p data-live="job.a org.b.jobs"></p><p data-live="job.a"></p><p data-live=""></p>';
    expect(topicsOf(document)).toEqual(["job.a", "org.b.jobs"]);
  });
});

describe("versions", () => {
  it("are news only when they grow", () => {
    const versions = new Versions();
    expect(versions.isNews({ topic: "job.a", version: 3 })).toBe(true);
    expect(versions.isNews({ topic: "job.a", version: 3 })).toBe(false);
    expect(versions.isNews({ topic: "job.a", version: 2 })).toBe(false);
    expect(versions.isNews({ topic: "job.b", version: 1 })).toBe(true);
    expect(versions.isNews({ topic: "job.a", version: "4" })).toBe(true);
    expect(versions.isNews({ topic: "job.a", version: "soon" })).toBe(true);
  });
});

describe("throttle", () => {
  it("lets one through at once and folds the rest into one at the end of the gap", () => {
    const clock = new HandClock();
    const fired: number[] = [];
    const throttle = new Throttle(clock, () => fired.push(clock.now()));
    const region = document.createElement("div");
    for (let i = 0; i < 5; i++) throttle.ask(region);
    expect(fired).toEqual([0]);
    clock.pass(SHORTEST_GAP_MS);
    expect(fired).toEqual([0, SHORTEST_GAP_MS]);
    clock.pass(10 * SHORTEST_GAP_MS);
    expect(fired).toHaveLength(2);
  });

  it("keeps regions apart", () => {
    const clock = new HandClock();
    const fired: string[] = [];
    const throttle = new Throttle(clock, (region) => fired.push(region.id));
    for (const id of ["a", "b"]) throttle.ask(Object.assign(document.createElement("i"), { id }));
    expect(fired).toEqual(["a", "b"]);
  });
});

describe("retry", () => {
  it("backs off, jitters and stays below fifteen seconds", () => {
    expect(retryDelay(0, 0)).toBe(250);
    expect(retryDelay(0, 0.999)).toBeLessThanOrEqual(500);
    expect(retryDelay(3, 0.5)).toBe(3_000);
    expect(retryDelay(50, 0.999)).toBeLessThanOrEqual(15_000);
  });
});

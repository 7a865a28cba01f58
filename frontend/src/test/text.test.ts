import { describe, expect, it } from "vitest";
import { freshPen, pieces } from "../ansi.ts";
import { elapsedText } from "../elements/run-clock.ts";
import { SinceTime, sinceText } from "../elements/since-time.ts";

const ESC = "\u001b";

describe("log text", () => {
  it("keeps colours and weight, drops every other sequence", () => {
    const line = `a${ESC}[32mb${ESC}[1mc${ESC}[0md${ESC}[2Ke${ESC}]0;title\u0007f`;
    expect(pieces(line, freshPen())).toEqual([
      { text: "a", className: "" },
      { text: "b", className: "ansi-green" },
      { text: "c", className: "ansi-green ansi-bold" },
      { text: "d", className: "" },
      { text: "e", className: "" },
      { text: "f", className: "" },
    ]);
  });

  it("carries the pen to the next line", () => {
    const pen = freshPen();
    pieces(`${ESC}[91mred`, pen);
    expect(pieces("still red", pen)).toEqual([{ text: "still red", className: "ansi-red" }]);
    expect(pieces(`${ESC}[39mplain`, pen)).toEqual([{ text: "plain", className: "" }]);
  });

  it("never makes markup of what a job prints", () => {
    expect(pieces("<img src=x onerror=alert(1)>", freshPen())).toEqual([
      { text: "<img src=x onerror=alert(1)>", className: "" },
    ]);
  });
});

describe("times", () => {
  it("are elapsed as a clock shows them", () => {
    expect(elapsedText(0)).toBe("0:00");
    expect(elapsedText(65_000)).toBe("1:05");
    expect(elapsedText(3_723_000)).toBe("1:02:03");
    expect(elapsedText(-5)).toBe("0:00");
  });

  it("are relative in both languages", () => {
    expect(sinceText(-180_000, "en")).toBe("3 minutes ago");
    expect(sinceText(-180_000, "zh-Hans")).toBe("3分钟前");
    expect(sinceText(-86_400_000, "en")).toBe("yesterday");
  });

  it("stay relative when a live region brings the server's text back", async () => {
    if (!customElements.get("since-time")) customElements.define("since-time", SinceTime);
    document.documentElement.lang = "en";
    const stamp = new Date(Date.now() - 120_000).toISOString();
    document.body.innerHTML = `<since-time><time datetime="${stamp}">1 Jan 2026 08:00</time></since-time>`;
    const time = document.querySelector("time")!;
    await new Promise((done) => setTimeout(done, 20));
    expect(time.textContent).toBe("2 minutes ago");
    expect(time.title).toBe("1 Jan 2026 08:00");
    time.textContent = "1 Jan 2026 08:00";
    await new Promise((done) => setTimeout(done, 20));
    expect(time.textContent).toBe("2 minutes ago");
  });
});

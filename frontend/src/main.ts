/** The one bundle of the console: looks, elements, live regions. Pages and forms work without it. */
import "@fontsource-variable/inter/wght.css";
import "@tabler/core/dist/css/tabler.min.css";
import "./tokens.css";
import "./app.css";

import { AutoSend } from "./elements/auto-send.ts";
import { CopyText } from "./elements/copy-text.ts";
import { LiveQuote } from "./elements/live-quote.ts";
import { LogView } from "./elements/log-view.ts";
import { OnceForm } from "./elements/once-form.ts";
import { QuickFind } from "./elements/quick-find.ts";
import { RunClock } from "./elements/run-clock.ts";
import { SinceTime } from "./elements/since-time.ts";
import { Live } from "./live.ts";
import { tameMenus } from "./menus.ts";

customElements.define("auto-send", AutoSend);
customElements.define("copy-text", CopyText);
customElements.define("live-quote", LiveQuote);
customElements.define("log-view", LogView);
customElements.define("once-form", OnceForm);
customElements.define("quick-find", QuickFind);
customElements.define("run-clock", RunClock);
customElements.define("since-time", SinceTime);

const live = new Live(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/`, document);

/** A live region that could not be fetched keeps what it shows; the banner says that it may be old. */
document.addEventListener("htmx:before:response", (event) => {
  const { ctx } = (event as CustomEvent).detail as { ctx: { sourceElement: Element; response: { status: number } } };
  if (!ctx.sourceElement.hasAttribute("data-live")) return;
  const stale = document.getElementById("region-stale");
  const failed = ctx.response.status >= 400;
  if (stale) stale.hidden = !failed;
  if (failed) event.preventDefault();
});
document.addEventListener("htmx:after:swap", () => live.rescan());

tameMenus(document);
live.start();

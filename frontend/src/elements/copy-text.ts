/** `<copy-text from="#id">`: wraps a button; copies the text of another element and says so for a moment. */
const SHOWN_MS = 2_000;

export class CopyText extends HTMLElement {
  connectedCallback(): void {
    this.addEventListener("click", () => void this.copy());
  }

  private async copy(): Promise<void> {
    const source = document.querySelector(this.getAttribute("from") ?? "");
    const text = source instanceof HTMLInputElement ? source.value : (source?.textContent ?? "").trim();
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const range = document.createRange();
      if (source) range.selectNodeContents(source);
      getSelection()?.removeAllRanges();
      getSelection()?.addRange(range);
      return;
    }
    this.dataset.copied = "";
    const say = this.querySelector("[data-say]");
    if (say) say.textContent = this.getAttribute("said") ?? "";
    window.setTimeout(() => {
      delete this.dataset.copied;
      if (say) say.textContent = "";
    }, SHOWN_MS);
  }
}

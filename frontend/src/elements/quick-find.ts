/** `<quick-find>`: ⌘K / Ctrl+K opens the search dialog from anywhere; "/" does too while nothing is being typed. */
export class QuickFind extends HTMLElement {
  private readonly onKey = (event: KeyboardEvent): void => {
    const typing = /^(input|textarea|select)$/i.test((document.activeElement?.tagName ?? "").toString());
    const asked =
      ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") || (event.key === "/" && !typing);
    if (!asked) return;
    event.preventDefault();
    this.open();
  };

  connectedCallback(): void {
    document.addEventListener("keydown", this.onKey);
    const dialog = this.querySelector("dialog");
    if (dialog) this.tame(dialog);
    this.querySelector("button[data-open]")?.addEventListener("click", (event) => {
      event.preventDefault();
      this.open();
    });
  }

  private tame(dialog: HTMLDialogElement): void {
    dialog.addEventListener("keydown", (event) => {
      // A search field would take the first Escape to empty itself.
      if (event.key === "Escape") dialog.close();
    });
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) dialog.close();
    });
  }

  disconnectedCallback(): void {
    document.removeEventListener("keydown", this.onKey);
  }

  private open(): void {
    const dialog = this.querySelector("dialog");
    if (!dialog || dialog.open) return;
    dialog.showModal();
    dialog.querySelector<HTMLInputElement>("input[type=search]")?.select();
  }
}

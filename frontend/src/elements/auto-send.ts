/**
 * `<auto-send>` around a form's choices: sends the form when one changes (language, theme, filters). Without the bundle
 * the form's own button does it; with it that button is hidden.
 */
export class AutoSend extends HTMLElement {
  connectedCallback(): void {
    for (const button of this.querySelectorAll<HTMLElement>("[data-fallback]")) button.hidden = true;
    this.addEventListener("change", (event) => {
      const target = event.target as HTMLSelectElement | HTMLInputElement;
      target.form?.requestSubmit();
    });
  }
}

/** `<once-form>` around a form that spends or destroys: the second press of a button does nothing. */
export class OnceForm extends HTMLElement {
  connectedCallback(): void {
    this.addEventListener("submit", (event) => {
      const form = event.target as HTMLFormElement;
      if (form.dataset.sent !== undefined) {
        event.preventDefault();
        return;
      }
      form.dataset.sent = "";
      for (const button of form.querySelectorAll("button")) button.setAttribute("aria-busy", "true");
    });
    window.addEventListener("pageshow", () => {
      for (const form of this.querySelectorAll("form")) delete form.dataset.sent;
    });
  }
}

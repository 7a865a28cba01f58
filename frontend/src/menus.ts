/** Menus are `<details data-menu>`: they work without this file, which only closes them on Escape and on a click elsewhere. */
export function tameMenus(root: Document): void {
  const opened = (): NodeListOf<HTMLDetailsElement> => root.querySelectorAll("details[data-menu][open]");
  root.addEventListener("click", (event) => {
    for (const menu of opened()) if (!menu.contains(event.target as Node)) menu.open = false;
  });
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of opened()) {
      menu.open = false;
      menu.querySelector("summary")?.focus();
    }
  });
}

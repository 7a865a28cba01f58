/* Before the first paint: "as my system" becomes light or dark. A chosen theme was already written by the server. */
(function () {
  var root = document.documentElement;
  if (root.dataset.theme !== "auto" || !window.matchMedia) return;
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  function apply() {
    root.dataset.bsTheme = dark.matches ? "dark" : "light";
  }
  apply();
  dark.addEventListener("change", apply);
})();

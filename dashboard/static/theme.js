// Before the first paint: the theme that was chosen here, else the system's.
"use strict";
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("theme"); } catch { /* storage is off: the system decides */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();

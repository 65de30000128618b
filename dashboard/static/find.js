// The fleet's tiles, filtered while one types in the search field; Enter searches runs and devices alike.
"use strict";
(() => {
  const field = document.getElementById("search");
  if (!field) return;
  const DELAY_MS = 80; // a burst of keys is one look

  function wanted() { return field.value.trim().toLowerCase().split(/\s+/).filter(Boolean); }
  function say(shown, all, words) {
    const line = document.getElementById("found");
    if (!line) return;
    line.hidden = words.length === 0;
    if (!words.length) return;
    line.textContent = shown
      ? `${shown} of ${all} devices; Esc shows all, Enter searches runs too`
      : `No device has “${field.value.trim()}”: Enter searches runs, Esc shows all devices`;
  }
  function apply() {
    const words = wanted();
    const tiles = [...document.querySelectorAll("#tiles > [data-find]")];
    let shown = 0;
    for (const tile of tiles) {
      const fits = words.every((word) => tile.dataset.find.includes(word));
      tile.hidden = !fits;
      if (fits) shown += 1;
    }
    say(shown, tiles.length, words);
  }

  let timer = 0;
  field.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(apply, DELAY_MS); });
  field.addEventListener("keydown", (event) => { if (event.key === "Escape") { field.value = ""; apply(); } });
  document.addEventListener("htmx:afterSwap", apply); // what was morphed in is filtered before it is painted
  if (field.value) apply(); // a browser may bring back what was typed before
})();

// Keyboard, theme switch and relative times. The pages work without any of it.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);

  // -- theme -------------------------------------------------------------------------------------------------------
  $("theme")?.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* lasts as long as the page */ }
  });

  // -- times: "3 min ago" grows older by itself; the exact local time is on hover ----------------------------------------
  const THIN = "\u202f";
  const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  function ago(at) {
    const seconds = (Date.now() - at) / 1000;
    const size = Math.abs(seconds);
    if (size < 2) return "just now";
    const [length, unit] = UNITS.find(([l]) => size >= l);
    const text = `${Math.floor(size / length)}${THIN}${unit}`;
    return seconds > 0 ? `${text} ago` : `in ${text}`;
  }
  function tick(root) {
    for (const el of (root || document).querySelectorAll("time[data-ago]")) {
      const at = Date.parse(el.dateTime);
      if (Number.isNaN(at)) continue;
      const text = ago(at);
      if (el.textContent !== text) el.textContent = text;
      const exact = new Date(at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });
      if (el.title !== exact) el.title = exact;
    }
  }
  tick();
  setInterval(tick, 1000);
  document.addEventListener("htmx:afterSettle", () => tick());

  // -- keyboard ------------------------------------------------------------------------------------------------------
  const help = $("keys");
  $("help")?.addEventListener("click", () => help.showModal());

  function rows() {
    return [...document.querySelectorAll("[data-row]")].filter((el) => el.offsetParent !== null);
  }
  function step(by) {
    const all = rows();
    if (!all.length) return;
    const here = all.indexOf(document.activeElement);
    const next = here < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, here + by));
    all[next].focus();
    all[next].scrollIntoView({ block: "nearest" });
  }
  const go = { f: "/", r: "/runs", v: "/reservations" };
  let after = 0; // when `g` was pressed
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || help?.open) return;
    const at = event.target;
    if (at instanceof HTMLElement && (at.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName))) {
      if (event.key === "Escape") at.blur();
      return;
    }
    const key = event.key;
    if (after && event.timeStamp - after < 1500 && go[key] && help) {
      event.preventDefault();
      location.assign(go[key]);
      return;
    }
    after = key === "g" ? event.timeStamp : 0;
    if (key === "/" && $("search")) { event.preventDefault(); $("search").focus(); $("search").select(); }
    else if (key === "n" && $("search")) location.assign("/runs/new");
    else if (key === "r" && $("search")) location.assign("/reservations/new");
    else if (key === "?" && $("help")) help.showModal();
    else if (key === "j") step(1);
    else if (key === "k") step(-1);
  });
})();

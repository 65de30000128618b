// The log of an attempt: filter, follow, earlier lines. Text from a device is only ever set as text.
"use strict";
(() => {
  const panel = document.getElementById("log");
  const lines = document.getElementById("log-lines");
  if (!panel || !lines) return;
  const filter = document.getElementById("log-filter");
  const follow = document.getElementById("log-follow");
  const state = document.getElementById("log-state");
  const older = document.getElementById("log-older");
  const MAX_LINES = 20000; // what one page holds; the whole is a download away
  const EVERY_MS = 1000;
  const PIECE = 256 * 1024;

  let first = Number(panel.dataset.offset);
  let next = Number(panel.dataset.next);
  let torn = ""; // a last line without its end yet

  const LEVEL = /^(?:\d\d-\d\d|\d{4}-\d\d-\d\d) \d\d:\d\d:\d\d\.\d+ +\d+ +\d+ ([VDIWEF]) |\b(ERROR|WARNING)\b/;
  function level(text) {
    const found = LEVEL.exec(text.slice(0, 400));
    if (!found) return "";
    if (found[1] === "E" || found[1] === "F" || found[2] === "ERROR") return "bad";
    return found[1] === "W" || found[2] === "WARNING" ? "warn" : "";
  }
  function wanted() { return filter.value.trim().toLowerCase(); }
  function line(text) {
    const el = document.createElement("span");
    el.className = `line ${level(text)}`;
    el.textContent = text; // a block of its own: no line end in it, so that what is copied holds just one
    el.hidden = wanted() !== "" && !text.toLowerCase().includes(wanted());
    return el;
  }
  function fragment(texts) {
    const all = document.createDocumentFragment();
    for (const text of texts) all.append(line(text));
    return all;
  }
  function append(text) {
    if (!text) return;
    document.getElementById("log-none")?.remove();
    lines.hidden = false;
    const parts = (torn + text).split("\n");
    torn = parts.pop();
    lines.querySelector(".torn")?.remove();
    lines.append(fragment(parts));
    if (torn) { const rest = line(torn); rest.classList.add("torn"); lines.append(rest); }
    while (lines.childElementCount > MAX_LINES) lines.firstElementChild.remove();
    if (follow.checked) lines.scrollTop = lines.scrollHeight;
    count();
  }
  function count() {
    const all = lines.childElementCount;
    const shown = wanted() ? lines.querySelectorAll(".line:not([hidden])").length : all;
    state.textContent = all ? (wanted() ? `${shown} of ${all} lines` : `${all} ${all === 1 ? "line" : "lines"}`) : "";
  }
  function apply() {
    for (const el of lines.children) el.hidden = wanted() !== "" && !el.textContent.toLowerCase().includes(wanted());
    count();
  }

  async function piece(offset, until) {
    const url = new URL(panel.dataset.log, location.href);
    url.searchParams.set("offset", String(offset));
    if (until) url.searchParams.set("until", String(until));
    const answer = await fetch(url, { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(String(answer.status));
    return answer.json();
  }
  async function poll() {
    let live = true;
    try {
      if (!document.hidden) {
        const got = await piece(next);
        if (got.exists) { append(got.text); next = got.next; }
        live = got.live || got.text !== "";
        panel.classList.remove("stale");
      }
    } catch {
      panel.classList.add("stale");
      state.textContent = "the farm does not answer: trying again";
    }
    if (live) setTimeout(poll, EVERY_MS);
  }

  older?.addEventListener("click", async () => {
    older.disabled = true;
    try {
      const from = Math.max(0, first - PIECE);
      const got = await piece(from, first);
      const parts = got.text.split("\n");
      const last = parts.pop(); // belongs to the first line that is here already
      const height = lines.scrollHeight;
      if (last && lines.firstElementChild) {
        const joined = last + lines.firstElementChild.textContent;
        lines.firstElementChild.replaceWith(line(joined));
      }
      lines.prepend(fragment(parts));
      lines.scrollTop += lines.scrollHeight - height;
      first = from;
      if (first === 0) older.remove();
      count();
    } catch { state.textContent = "earlier lines could not be read"; }
    older.disabled = false;
  });
  filter.addEventListener("input", apply);
  lines.addEventListener("scroll", () => {
    const atEnd = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 40;
    if (!atEnd && follow.checked && lines.matches(":hover, :focus")) follow.checked = false;
  });
  follow.addEventListener("change", () => { if (follow.checked) lines.scrollTop = lines.scrollHeight; });

  const text = lines.textContent;
  lines.textContent = "";
  append(text);
  if (panel.dataset.liveLog === "yes") poll();
})();

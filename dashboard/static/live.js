// Live pages: the farm says *that* something changed (server-sent events); the page then asks for its own live part and
// morphs it in place. Hidden pages hold no connection. Without this script a page is simply as old as its last load.
"use strict";
(() => {
  const TOPICS = ["host", "inventory", "device", "hold", "alert", "reservation", "run", "job", "attempt", "test", "measurement", "log"];
  const SETTLE_MS = 200; // changes come in bursts
  const REST_MS = 400; // least time between two requests

  const state = document.getElementById("live-state");
  const part = () => document.querySelector("[data-live]");
  const time = () => new Date().toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });

  let source = null;
  let staleSince = null;
  let timer = 0;
  let busy = false;
  let dirty = false;
  let resting = 0;

  function say(kind, text) {
    if (!state) return;
    state.hidden = kind === "";
    if (state.dataset.kind !== kind) state.dataset.kind = kind;
    if (state.textContent !== text) state.textContent = text;
  }
  function alive() { staleSince = null; say("live", "live"); }
  function stale() {
    staleSince = staleSince || time();
    say("stale", `stale since ${staleSince}`);
  }

  function refresh() {
    dirty = true;
    if (busy || timer || !part() || document.hidden) return;
    timer = setTimeout(() => {
      timer = 0;
      if (!part()) return;
      dirty = false;
      busy = true;
      htmx.trigger(part(), "refresh");
    }, Math.max(SETTLE_MS, resting - Date.now()));
  }
  function answered() {
    busy = false;
    resting = Date.now() + REST_MS;
    if (!part()) { close(); say("", ""); return; } // the thing has ended: nothing more will change
    if (dirty) refresh();
  }

  function concerns(change, el) {
    const topics = el.dataset.live;
    if (topics !== "*" && !topics.split(" ").includes(change.topic)) return false;
    if (el.dataset.run && change.run !== null && String(change.run) !== el.dataset.run) return false;
    if (el.dataset.run && change.run === null) return false;
    if (el.dataset.device && change.device !== null && String(change.device) !== el.dataset.device) return false;
    return true;
  }
  function heard(event) {
    const el = part();
    if (!el) return;
    let change;
    try { change = JSON.parse(event.data); } catch { return; }
    if (concerns(change, el)) refresh();
  }

  function open() {
    if (source || !part() || document.hidden || !window.EventSource) return;
    const run = part().dataset.run;
    source = new EventSource(run ? `/api/events?run=${encodeURIComponent(run)}` : "/api/events");
    for (const topic of TOPICS) source.addEventListener(topic, heard);
    source.addEventListener("hello", alive);
    source.addEventListener("reset", refresh);
    source.addEventListener("open", () => { const was = staleSince; alive(); if (was) refresh(); });
    source.addEventListener("error", () => {
      stale();
      if (source && source.readyState === EventSource.CLOSED) { close(); setTimeout(open, 5000); }
    });
  }
  function close() { source?.close(); source = null; }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) close();
    else { open(); refresh(); }
  });
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => { if (event.persisted) { open(); refresh(); } });

  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.elt?.id !== "live") return;
    const status = event.detail.xhr?.status ?? 0;
    if (event.detail.successful) { if (source && source.readyState === EventSource.OPEN) alive(); }
    else if (status === 404 || status === 410) { close(); gone(event.detail.xhr.responseText); }
    else stale();
  });
  document.addEventListener("htmx:afterSettle", (event) => { if (event.target?.id === "live" || event.detail.elt?.id === "live") answered(); });
  for (const failed of ["htmx:responseError", "htmx:sendError", "htmx:timeout", "htmx:swapError"]) {
    document.addEventListener(failed, (event) => {
      if (event.detail.elt?.id !== "live") return;
      busy = false;
      resting = Date.now() + 5000;
      if (failed !== "htmx:responseError") stale();
    });
  }
  function gone(html) {
    const old = part();
    say("", "");
    if (!old) return;
    const parsed = new DOMParser().parseFromString(html, "text/html").getElementById("error");
    if (parsed) old.replaceWith(parsed);
  }

  // What a person has opened stays open, and what has the focus keeps it, while its surroundings are morphed.
  if (window.Idiomorph) {
    Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) =>
      !(name === "open" && node instanceof HTMLDetailsElement && node.dataset.touched !== undefined);
    Idiomorph.defaults.callbacks.beforeNodeMorphed = (node) =>
      !(node instanceof HTMLFormElement && node.dataset.touched !== undefined);
  }
  document.addEventListener("input", (event) => { // what was typed or chosen stays until it is sent
    const form = event.target instanceof Element ? event.target.closest("[data-live] form") : null;
    if (form instanceof HTMLFormElement) form.dataset.touched = "";
  });
  document.addEventListener("click", (event) => {
    const details = event.target instanceof Element ? event.target.closest("summary")?.parentElement : null;
    if (details instanceof HTMLDetailsElement) details.dataset.touched = "";
  });

  // What no change announces (how long something lasts so far) is read anew every few seconds. A read that fails also
  // tells that the farm is out of reach: a stream whose network went away says nothing.
  setInterval(() => {
    const el = part();
    if (!el || document.hidden) return;
    const every = Number(el.dataset.every || 0) * 1000;
    if (every && Date.now() > resting + every) refresh();
  }, 1000);

  open();
})();

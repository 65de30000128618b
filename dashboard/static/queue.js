// Queue a run: a chip fills the selector; the button is offered only when the run could be queued as the form stands.
"use strict";
(() => {
  const form = document.getElementById("queue");
  if (!form) return;
  const selector = document.getElementById("selector");
  const button = form.querySelector("button[type=submit]");
  const why = document.getElementById("submit-why");
  const forbidden = button.disabled; // by the viewer's rights, which no choice here changes

  function hindrance() {
    const state = document.getElementById("preview-state")?.dataset.state;
    if (state === "error") return "the selector cannot be read";
    if (state === "refused") return "the bundle has no files for some of these devices";
    if (state === "nothing") return "no device matches";
    if (!form.querySelector("input[name=suites]:checked")) return "choose a suite";
    return "";
  }
  function offer() {
    if (forbidden) return;
    const reason = hindrance();
    button.disabled = reason !== "";
    why.textContent = reason;
  }

  form.addEventListener("input", () => {
    document.getElementById("refusal")?.remove(); // it spoke of what stood here before
    offer();
  });
  document.addEventListener("click", (event) => {
    const chip = event.target instanceof Element ? event.target.closest("[data-selector]") : null;
    if (!chip) return;
    const term = chip.dataset.selector;
    const held = selector.value.trim();
    selector.value = term === "*" || !held || held === "*" ? term : held.includes(term) ? held : `${held} ${term}`;
    selector.focus();
    selector.dispatchEvent(new Event("input", { bubbles: true }));
    if (window.htmx) htmx.trigger(selector, "preview");
  });
  document.addEventListener("htmx:afterSettle", offer);
  offer();
})();

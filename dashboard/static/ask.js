// A form that asks for devices: a chip fills the selector; the button is offered only when what stands there could work.
"use strict";
(() => {
  const form = document.querySelector("form[data-asks]");
  if (!form) return;
  const selector = document.getElementById("selector");
  const button = form.querySelector("button[type=submit]");
  const why = document.getElementById("submit-why");
  const forbidden = button.disabled; // by the viewer's rights, which no choice here changes
  const suites = () => [...form.querySelectorAll("input[name=suites]")];

  function hindrance() {
    const state = document.getElementById("preview-state")?.dataset.state;
    if (state === "error") return "the selector cannot be read";
    if (state === "refused") return "the bundle has no files for some of these devices";
    if (state === "nothing") return "no device matches";
    if (suites().length && !suites().some((suite) => suite.checked)) return "choose a suite";
    return "";
  }
  function offer() {
    if (forbidden) return;
    const reason = hindrance();
    button.disabled = reason !== "";
    why.textContent = reason;
  }

  form.addEventListener("input", (event) => {
    document.getElementById("refusal")?.remove(); // it spoke of what stood here before
    const field = event.target;
    if (field.getAttribute?.("aria-invalid")) {
      field.removeAttribute("aria-invalid");
      document.getElementById(`${field.id}-error`)?.remove();
    }
    offer();
  });
  document.addEventListener("click", (event) => {
    const chip = event.target instanceof Element ? event.target.closest("[data-selector], [data-fills]") : null;
    if (!chip) return;
    if (chip.dataset.fills) {
      const field = document.getElementById(chip.dataset.fills);
      field.value = chip.dataset.value;
      field.focus();
      field.dispatchEvent(new Event("input", { bubbles: true }));
      return;
    }
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

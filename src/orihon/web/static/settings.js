// Filters the settings while one types; without scripts the form asks the server.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const form = document.querySelector("form.settings"), box = form.querySelector("[data-filter]"), only = form.querySelector("[data-changed]");
  const settings = [...document.querySelectorAll("[data-setting]")].map((element) => ({ element, said: element.textContent.toLowerCase() + " " + element.dataset.setting }));
  const count = document.querySelector("[data-count]"), none = document.querySelector("[data-none]");
  // What the server has left out can only come from the server.
  const isWhole = !box.value && !only.checked;
  if (!isWhole) return;
  form.querySelector("[data-apply]").hidden = true;
  function filter() {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { element, said } of settings) {
      element.hidden = !words.every((word) => said.includes(word)) || (only.checked && element.dataset.isChanged === undefined);
      shown += !element.hidden;
    }
    for (const section of document.querySelectorAll("[data-section]")) {
      section.hidden = !section.querySelector("[data-setting]:not([hidden])");
      const link = document.querySelector(`[data-section-link="${CSS.escape(section.dataset.section)}"]`);
      if (link) link.hidden = section.hidden;
    }
    count.textContent = count.dataset.text.replace("#", shown);
    none.hidden = shown > 0;
    const address = new URL(location.href);
    box.value ? address.searchParams.set("search", box.value) : address.searchParams.delete("search");
    only.checked ? address.searchParams.set("changed", "true") : address.searchParams.delete("changed");
    history.replaceState(null, "", address);
  }
  box.addEventListener("input", filter);
  only.addEventListener("change", filter);
  form.addEventListener("submit", (event) => { event.preventDefault(); filter(); });
});

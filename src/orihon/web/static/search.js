// A choice among the filters searches at once; without scripts the button does it.
"use strict";
document.addEventListener("change", (event) => {
  const form = event.target.closest("form.search");
  if (form && event.target.matches("[data-submit]") && form.elements.query.value.trim()) form.requestSubmit();
});
// Empty fields stay out of the address.
document.addEventListener("submit", (event) => {
  if (!event.target.matches("form.search")) return;
  for (const field of event.target.elements) if (field.name && !field.value) field.disabled = true;
});
window.addEventListener("pageshow", () => {
  for (const field of document.querySelector("form.search").elements) field.disabled = false;
});

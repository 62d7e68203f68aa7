// What takes longer to count is fetched after the page is there.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  for (const chosen of document.querySelectorAll("[data-submit]")) chosen.addEventListener("change", () => chosen.form.requestSubmit());
  for (const place of document.querySelectorAll("[data-later]")) {
    orihon.piece(place.dataset.later).then((part) => {
      place.replaceChildren(part);
      place.removeAttribute("aria-busy");
      orihon.times(place);
    }, (error) => {
      place.removeAttribute("aria-busy");
      place.textContent = error.message;
    });
  }
});

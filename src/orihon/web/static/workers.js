// The page of the workers follows them: its changing part is fetched anew, and only what differs is put in place.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const part = document.querySelector("[data-part]");
  let workers = null, shown = "";

  const refresh = orihon.sparing(1500, async () => {
    const fresh = await orihon.piece(part.dataset.part);
    const text = fresh.textContent;
    if (text === shown) return;
    shown = text;
    for (const one of part.querySelectorAll("details[open][data-keep]")) {
      const again = fresh.querySelector(`[data-keep="${one.dataset.keep}"]`);
      if (again) again.open = true;
    }
    const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    part.replaceChildren(fresh);
    orihon.times(part);
    if (focused) part.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  });

  orihon.listen("/events", (state) => {
    if (state.first || state.tasks.length || state.workers !== workers) refresh();
    workers = state.workers;
  });
});

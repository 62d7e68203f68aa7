// The feed: new notices appear by themselves on its first page; what was folded can be undone from here.
"use strict";
(() => {
  const feed = document.querySelector("[data-feed]");
  const refresh = orihon.sparing(500, async () => {
    const known = new Set([...feed.querySelectorAll("[data-number]")].map((one) => one.dataset.number));
    const focused = document.activeElement?.closest("[data-number]")?.dataset.number;
    const fresh = await orihon.piece(feed.dataset.feed);
    for (const one of fresh.querySelectorAll("[data-number]")) one.classList.toggle("fresh", !known.has(one.dataset.number));
    feed.replaceChildren(...fresh.childNodes);
    orihon.times(feed);
    if (focused) feed.querySelector(`[data-number="${focused}"] :is(a, button)`)?.focus({ preventScroll: true });
  });
  feed.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-undo]");
    if (!button) return;
    button.disabled = true;
    if (!(await notices.undo(button.dataset.task, Number(button.dataset.undo)))) button.disabled = false;
  });
  document.addEventListener("DOMContentLoaded", () => {
    if (feed.dataset.old !== undefined) return;
    let last = null;
    orihon.listen("/events", (state) => {
      const tasks = new Set([...feed.querySelectorAll("a[href^='/tasks/']")].map((one) => one.pathname.split("/")[2]));
      // What has come between this page and its first news is told by nobody: it is fetched.
      if (state.first || (last !== null && (state.notice !== last || state.tasks.some((uuid) => tasks.has(uuid))))) refresh();
      last = state.notice;
    });
    document.addEventListener("orihon:changed", refresh);
  });
})();

// Pages about one step or one change: copying what the model saw, and buttons that follow an undo.
"use strict";
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  try {
    const answer = await fetch(button.dataset.copy);
    if (!answer.ok) throw new Error(`${orihon.say("failed")} (${answer.status})`);
    await navigator.clipboard.writeText(await answer.text());
    orihon.toast(orihon.say("copied"), { seconds: 3 });
  } catch (error) { orihon.complain(error); }
});
// What was undone can be redone, and the other way round: the buttons follow, and what has been said stays on the screen.
document.addEventListener("orihon:changed", async () => {
  try {
    const made = [...(await orihon.piece(location.pathname)).querySelectorAll("[data-fresh]")];
    const focused = document.activeElement?.closest("[data-act]");
    for (const [at, old] of document.querySelectorAll("[data-fresh]").entries()) old.replaceWith(made[at]);
    if (focused && !focused.isConnected) document.querySelector("[data-fresh] [data-act]")?.focus();
  } catch { /* the next load of the page shows it */ }
});

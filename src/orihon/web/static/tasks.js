// The list of tasks follows what happens: rows that have changed are fetched and put in place, and nothing else moves.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  for (const chosen of document.querySelectorAll("[data-submit]")) chosen.addEventListener("change", () => chosen.form.requestSubmit());
  for (const form of document.querySelectorAll("form.filters")) {
    // Short addresses: what is empty need not be in them.
    form.addEventListener("formdata", (event) => { for (const [name, value] of [...event.formData]) if (!value) event.formData.delete(name); });
  }
  const body = document.querySelector("[data-rows]"), changed = new Set();
  const filtered = body !== null && body.dataset.rows.includes("?");
  const elsewhere = new Set(); // tasks of other pages: they stay there while no task changes its state
  let everything = false, known = "";

  function put(old, fresh) {
    if (!old) return fresh;
    // What was asked for earlier may come later.
    if (old.dataset.state === fresh.dataset.state || (whenOf(old) > whenOf(fresh) && stateOf(old) === stateOf(fresh))) return old;
    const focused = old.contains(document.activeElement);
    if (stateOf(old) !== stateOf(fresh)) fresh.classList.add("fresh");
    old.replaceWith(fresh);
    if (focused) fresh.querySelector("a").focus({ preventScroll: true });
    return fresh;
  }
  const rowOf = (uuid) => body.querySelector(`[data-task="${CSS.escape(uuid)}"]`);

  const refresh = orihon.sparing(filtered ? 1500 : 600, async () => {
    const all = everything, uuids = [...changed];
    everything = false;
    changed.clear();
    if (!all && !uuids.length) return;
    const address = all ? body.dataset.rows : `/tasks/rows?ids=${uuids.map(encodeURIComponent).join(",")}`;
    const rows = [...(await orihon.piece(address)).querySelectorAll("tr")];
    if (all) arrange(rows);
    if (all && !filtered) for (const uuid of uuids) if (!rowOf(uuid)) elsewhere.add(uuid);
    if (!all) replace(rows);
    else orihon.times(body);
  });
  function replace(rows) {
    for (const row of rows) {
      const old = rowOf(row.dataset.task);
      // What runs or waits stands first: a task that has changed its state may stand elsewhere now.
      if (old && stateOf(old) !== stateOf(row)) everything = true;
      put(old, row);
    }
    orihon.times(body);
    if (everything) refresh();
  }
  const stateOf = (row) => row.dataset.state.split(" ")[0], whenOf = (row) => row.dataset.state.split(" ")[1];
  // The list as the server has it now, in its order.
  function arrange(rows) {
    const wanted = new Set(rows.map((row) => row.dataset.task));
    for (const old of [...body.children]) if (!wanted.has(old.dataset.task)) old.remove();
    let place = body.firstElementChild;
    for (const row of rows) {
      const known = rowOf(row.dataset.task), shown = put(known, row);
      if (place === known) place = known === null ? place : shown;
      if (place === shown) { place = shown.nextElementSibling; continue; }
      if (!known) shown.classList.add("fresh");
      body.insertBefore(shown, place);
    }
    document.querySelector("[data-list]").hidden = !rows.length;
    document.querySelector("[data-no-match]").hidden = rows.length > 0;
  }

  function counts(state) {
    for (const card of document.querySelectorAll("[data-status]")) {
      const status = card.dataset.status;
      const number = status === "*" ? Object.values(state.counts).reduce((sum, one) => sum + one, 0) : state.counts[status] || 0;
      card.querySelector("b").textContent = number.toLocaleString("en");
      card.classList.toggle("zero", !number && status !== "*");
      if (status === "dead") card.hidden = !number;
    }
    const now = JSON.stringify(state.counts);
    if (now !== known) elsewhere.clear();
    known = now;
  }

  orihon.listen("/events", (state) => {
    counts(state);
    if (!body) {
      if (Object.keys(state.counts).length) location.reload();
      return;
    }
    const tasks = state.tasks.filter((uuid) => !elsewhere.has(uuid));
    // A row that is not here may belong here now; with filters, one that is here may not any more.
    if (state.first || state.missed || (tasks.length && (filtered || tasks.some((uuid) => !rowOf(uuid))))) everything = true;
    if (state.rows && !everything) return replace(orihon.fragment(state.rows).querySelectorAll("tr"));
    for (const uuid of tasks) changed.add(uuid);
    if (everything || changed.size) refresh();
  });
});

// The inbox: answers go through the API; questions come and go by themselves, and nothing that is being written is lost.
"use strict";
(() => {
  const texts = JSON.parse(document.getElementById("approval-texts").textContent);
  const say = (name, fields = {}) => texts[name].replace(/\{(\w+)\}/g, (_, field) => fields[field] ?? "");
  const root = document.querySelector("[data-approvals]");

  // How long there is still time, in the reader's words.
  const spoken = new Intl.RelativeTimeFormat(document.documentElement.lang, { numeric: "auto" });
  function limits() {
    for (const time of root.querySelectorAll("time[data-until]")) {
      const seconds = (Date.parse(time.getAttribute("datetime")) - orihon.now()) / 1000;
      const [size, unit] = Math.abs(seconds) < 90 ? [1, "second"] : Math.abs(seconds) < 5400 ? [60, "minute"] : Math.abs(seconds) < 172800 ? [3600, "hour"] : [86400, "day"];
      time.textContent = spoken.format(Math.round(seconds / size), unit);
    }
  }

  // What is new comes in, what is answered goes. A card that stays is not touched: somebody may be writing in it.
  const refresh = orihon.sparing(250, async () => {
    const fresh = await orihon.piece(root.dataset.approvals);
    const inbox = root.querySelector("[data-inbox]"), wanted = fresh.querySelector("[data-inbox]");
    const known = new Map([...inbox.querySelectorAll("[data-key]")].map((card) => [card.dataset.key, card]));
    let added = 0, anchor = inbox.querySelector("nav");
    for (const other of inbox.querySelectorAll(":scope > .empty")) other.remove();
    for (const one of [...wanted.children].reverse()) {
      if (one.matches("nav")) { anchor.replaceWith(one); anchor = one; continue; }
      const old = known.get(one.dataset.key);
      known.delete(one.dataset.key);
      if (!old) { anchor.before(one); added += one.dataset.key ? 1 : 0; }
      anchor = old || one;
    }
    for (const gone of known.values()) gone.remove();
    root.querySelector("[data-answered]").replaceWith(fresh.querySelector("[data-answered]"));
    orihon.times(root);
    limits();
    if (added && document.hidden) document.title = `(${added}) ${document.title.replace(/^\(\d+\) /, "")}`;
  });

  async function answer(card, decision) {
    const form = card.querySelector("form[data-answer]"), place = form.querySelector("[data-problem]"), comment = form.elements.comment.value.trim();
    const complain = (message) => { place.textContent = message; place.hidden = !message; };
    complain("");
    if (decision !== "approve" && !comment) { complain(say("empty")); form.elements.comment.focus(); return; }
    const said = { checkpoint: Number(card.dataset.checkpoint), [decision === "revise" ? "instructions" : "reason"]: comment };
    const sections = form.elements.sections ? form.elements.sections.value.split(/[,、\n]/).map((one) => one.trim()).filter(Boolean) : [];
    if (decision !== "approve" && sections.length) said.sections = sections;
    card.classList.add("answering");
    for (const button of form.querySelectorAll("button")) button.disabled = true;
    try {
      const done = await orihon.api("POST", `/api/tasks/${encodeURIComponent(card.dataset.task)}/${decision}`, said);
      const next = done.waits_for ? "still" : done.requested === "resume" || done.status === "running" ? "" : "paused";
      orihon.toast([say(decision, { name: done.checkpoint.name }), next && say(next)].filter(Boolean).join(" "), { actions: [[say("open"), () => location.assign(`/tasks/${done.uuid}`)]] });
      const after = card.nextElementSibling?.matches("[data-key]") ? card.nextElementSibling : card.previousElementSibling;
      card.remove();
      if (after?.matches("[data-key]")) after.focus();
      document.dispatchEvent(new CustomEvent("orihon:changed", { detail: { task: done.uuid, act: decision, record: done } }));
    } catch (error) {
      complain(error.message);
      card.classList.remove("answering");
      for (const button of form.querySelectorAll("button")) button.disabled = false;
    }
    refresh();
  }

  root.addEventListener("submit", (event) => {
    if (!event.target.matches("form[data-answer]")) return;
    event.preventDefault();
    answer(event.target.closest("[data-key]"), event.submitter?.value || "approve");
  });
  // The names of sections are looked up when somebody is about to write one.
  root.addEventListener("focusin", async (event) => {
    const list = event.target.name === "sections" ? event.target.list : null;
    if (!list || list.dataset.filled) return;
    list.dataset.filled = "1";
    const { sections } = await orihon.api("GET", `/api/tasks/${encodeURIComponent(event.target.closest("[data-key]").dataset.task)}/sections`).catch(() => ({ sections: [] }));
    list.append(...sections.slice(0, 200).map((name) => orihon.element("option", { value: name })));
  });
  let before = "";
  document.addEventListener("keydown", (event) => {
    const typed = event.target.closest("input, textarea, select, dialog[open]");
    const wanted = { a: "approve", x: "reject", e: "revise" }[event.key];
    const card = wanted && !typed && before !== "g" && !event.ctrlKey && !event.metaKey && !event.altKey && document.activeElement.closest("[data-key]");
    before = event.key;
    if (!card || !card.querySelector("form[data-answer]")) return;
    event.preventDefault();
    const box = card.querySelector("textarea");
    if (wanted === "approve" || box.value.trim()) card.querySelector(`button[value=${wanted}]`).click(); else box.focus();
  });
  document.addEventListener("DOMContentLoaded", () => {
    limits();
    setInterval(limits, 10000);
    // Everything that is asked or answered is told; an answered task that changes shows its new state. What has come
    // between this page and its first news is told by nobody: it is fetched.
    let notice = null;
    orihon.listen("/events", (state) => {
      const shown = [...root.querySelectorAll("[data-answered] [data-task]")].map((one) => one.dataset.task);
      const cards = [...root.querySelectorAll("[data-key]")].map((one) => one.dataset.task);
      const touched = state.tasks.some((uuid) => shown.includes(uuid) || cards.includes(uuid));
      if (state.missed || touched || state.first || (notice !== null && state.notice !== notice)) refresh();
      notice = state.notice;
    });
    window.addEventListener("focus", () => { document.title = document.title.replace(/^\(\d+\) /, ""); });
  });
})();

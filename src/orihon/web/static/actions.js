// What the buttons with data-act do: ask where it is needed, change the task through the API, say what happened.
// Whoever shows the task listens to "orihon:changed" on the document; detail is {task, act, record}.
"use strict";
const actions = (() => {
  const texts = JSON.parse(document.getElementById("action-texts")?.textContent || "{}");
  const say = (name, fields = {}) => (texts[name] || name).replace(/\{(\w+)\}/g, (_, field) => fields[field] ?? "");
  const number = (value) => Number(value).toLocaleString(document.documentElement.lang);
  const path = (task, act) => `/api/tasks/${encodeURIComponent(task)}/${act}`;
  const tell = (task, act, record) => document.dispatchEvent(new CustomEvent("orihon:changed", { detail: { task, act, record } }));
  const sizes = (change) => ({ before: number(change.before_tokens), after: number(change.after_tokens) });

  async function post(task, act, body = {}) {
    const record = await orihon.api("POST", path(task, act), body);
    tell(task, act, record);
    return record;
  }
  // A change that needs no dialog; whatever goes wrong is said in a notice.
  async function attempt(act) {
    try { return await act(); } catch (error) { orihon.complain(error); return null; }
  }
  const undoing = (task, compression) => [orihon.say("undo"), () => attempt(() => undo(task, compression))];

  async function undo(task, compression) {
    const { compression: made } = await post(task, "undo", compression ? { compression } : {});
    orihon.toast(say("undone", { n: made.parent, ...sizes(made) }), { actions: [[say("redo"), () => attempt(() => redo(task, made.parent))]] });
  }
  async function redo(task, compression) {
    const { compression: made } = await post(task, "redo", compression ? { compression } : {});
    orihon.toast(say("redone", { n: made.parent, ...sizes(made) }), { actions: [undoing(task, made.parent)] });
  }
  async function unfold(task, fold) {
    const { compression: made } = await post(task, "unfold", { fold });
    orihon.toast(say("unfolded", { n: fold, ...sizes(made) }), { actions: [undoing(task, made.id)] });
  }
  async function pin(task, seq, line = "") {
    await post(task, "pin", { seq, line });
    const back = [orihon.say("undo"), () => attempt(() => unpin(task, seq, line))];
    const closer = [say("pin_line"), () => attempt(async () => { await post(task, "unpin", { seq }); askLine(task, seq, ""); })];
    orihon.toast(say(line ? "pinned_line" : "pinned", { n: seq }), { actions: line ? [back] : [back, closer] });
  }
  async function unpin(task, seq, line = "") {
    await post(task, "unpin", { seq, line });
    orihon.toast(say("unpinned", { n: seq }), { actions: [[orihon.say("undo"), () => attempt(() => pin(task, seq, line))]] });
  }
  async function wish(task, act) {
    const row = await post(task, act);
    orihon.toast(say(row.requested === act && row.owner ? `${act}_asked` : `${act}_done`), { kind: act === "cancel" ? "warn" : "" });
  }

  // ---- dialogs ---------------------------------------------------------------------------------------------------

  const dialog = (name) => document.querySelector(`dialog[data-dialog=${name}]`);
  // Opens a dialog; `go` is called with its form when somebody agrees, and may throw what then stands in the dialog.
  // Escape may be a slip: what was written `about` the same thing is there again, and box.isBack says so.
  function open(name, go, about = "") {
    const box = dialog(name), form = box.querySelector("form[data-main]"), button = form.querySelector("[data-go]");
    const over = () => { box.left = null; box.close(); };
    box.isBack = Boolean(about) && box.left === about;
    box.oncancel = () => { box.left = about; };
    problem(box);
    button.disabled = false;
    form.onsubmit = async (event) => {
      event.preventDefault();
      problem(box);
      button.disabled = true;
      try { await go(form.elements); over(); } catch (error) { problem(box, error.message); if (box.failed) box.failed(error); }
      button.disabled = false;
    };
    for (const close of box.querySelectorAll("[data-close]")) close.onclick = over;
    if (!box.open) box.showModal();
    return form.elements;
  }
  function problem(box, message = "") {
    const place = box.querySelector("[data-problem]");
    place.textContent = message;
    place.hidden = !message;
  }
  const label = (name, value) => { for (const place of dialog(name).querySelectorAll("[data-number]")) place.textContent = value; };

  async function edit(task, fold) {
    const { text: old } = await orihon.api("GET", `${path(task, "folds")}/${fold}/text`);
    label("edit", fold);
    const fields = open("edit", async ({ text }) => {
      if (text.value === old) return;
      const { compression: made } = await post(task, "edit", { fold, text: text.value });
      orihon.toast(say("edited", { n: fold, ...sizes(made) }), { actions: [undoing(task, made.id)] });
    }, `${task} ${fold}`);
    if (!dialog("edit").isBack) fields.text.value = old;
    fields.text.setSelectionRange(0, 0);
    fields.text.focus();
  }
  function rewind(task, seq) {
    label("rewind", seq);
    const fields = open("rewind", async ({ notice }) => {
      const { compression: made } = await post(task, "rewind", { to: seq, notice: notice.value });
      orihon.toast(say("rewound", { n: seq, ...sizes(made) }), { actions: [undoing(task, made.id)] });
    }, `${task} ${seq}`);
    if (!dialog("rewind").isBack) fields.notice.value = "";
  }
  function fork(task, seq) {
    open("fork", async ({ at }) => {
      const made = await post(task, "fork", { at: Number(at.value) });
      orihon.toast(say("forked", { n: at.value }), { seconds: 20, actions: [[say("open_fork"), () => location.assign(`/tasks/${made.uuid}`)]] });
    }).at.value = seq || "";
  }
  function askLine(task, seq, line) {
    label("pin", seq);
    open("pin", ({ line: wanted }) => pin(task, seq, wanted.value)).line.value = line;
  }
  const cancel = (task) => open("cancel", () => wish(task, "cancel"));

  // ---- a compression, with its preview first ----------------------------------------------------------------------

  function compress(task) {
    const box = dialog("compress"), choices = box.querySelector("form[data-choices]"), place = box.querySelector("[data-planned]");
    let planned = null, round = 0;
    open("compress", async () => {
      if (!planned) return;
      const edited = {};
      for (const area of changed()) edited[area.dataset.start] = area.value;
      const { compression: made } = await post(task, "compress", { preview: planned.preview, texts: edited });
      orihon.toast(say("compressed", { ...sizes(made) }), { actions: [undoing(task, made.id)] });
    }, task);
    const button = box.querySelector("[data-go]");
    const changed = () => [...place.querySelectorAll("textarea")].filter((area) => area.value !== area.defaultValue);
    async function preview() {
      const mine = ++round, kept = new Map(changed().map((area) => [area.dataset.run, area.value]));
      button.disabled = true;
      place.setAttribute("aria-busy", "true");
      const { strategy, level, target } = choices.elements, wanted = {};
      if (strategy.value) wanted.strategy = strategy.value;
      if (level.value) wanted.level = level.value;
      if (target.value) wanted.target = Number(target.value) / 100;
      try {
        const found = await orihon.api("POST", path(task, "compress/preview"), wanted);
        if (mine !== round) return;
        planned = found.preview ? found : null;
        place.replaceChildren(...(planned ? plan(box, planned) : [orihon.element("p", { class: "empty" }, found.why)]));
        // What somebody has written about the same messages is still theirs.
        for (const area of place.querySelectorAll("textarea")) if (kept.has(area.dataset.run)) area.value = kept.get(area.dataset.run);
      } catch (error) {
        if (mine !== round) return;
        planned = null;
        place.replaceChildren(orihon.element("p", { class: "wrong", role: "alert" }, error.message));
      }
      place.setAttribute("aria-busy", "false");
      button.disabled = !planned;
    }
    choices.onsubmit = (event) => { event.preventDefault(); problem(box); preview(); };
    choices.onchange = () => { problem(box); fit(); preview(); };
    // The view was changed by somebody else: from now on what would be made now is shown. Any other problem is theirs
    // to mend in what they see.
    box.failed = (error) => { if (["IllegalFold.preview_old", "IllegalFold.preview_gone"].includes(error.reason)) preview(); };
    const { strategy: way, level: strength } = choices.elements;
    const fit = () => { strength.disabled = way.value !== "" && way.value !== "sections"; if (strength.disabled) strength.value = ""; };
    if (!box.isBack) { choices.reset(); place.replaceChildren(); }
    fit();
    preview();
  }
  function plan(box, planned) {
    const sum = box.querySelector("[data-sum]").content.cloneNode(true);
    const share = planned.before_tokens ? planned.after_tokens / planned.before_tokens : 1;
    sum.querySelector("[data-before]").textContent = number(planned.before_tokens);
    sum.querySelector("[data-after]").textContent = say("tokens", { n: number(planned.after_tokens) });
    sum.querySelector("[data-saved]").textContent = `−${Math.round(100 * (1 - share))} %`;
    const called = (name) => box.querySelector(`option[value="${CSS.escape(name)}"]`)?.textContent || name;
    sum.querySelector("[data-how]").textContent = say("how", { strategy: planned.strategy.split("+").map(called).join(" + "), goal: number(planned.goal) });
    sum.querySelector(".after").setAttribute("width", String(100 * share));
    return [sum, ...planned.folds.map((fold, index) => folded(box, fold, index < 3 && planned.folds.length <= 6))];
  }
  function folded(box, fold, isOpen) {
    const made = box.querySelector("[data-fold]").content.cloneNode(true), report = fold.report;
    const run = fold.start_seq === fold.end_seq ? say("message", { n: fold.start_seq }) : say("messages", { first: fold.start_seq, last: fold.end_seq });
    made.querySelector("details").open = isOpen;
    made.querySelector("[data-run]").textContent = run;
    made.querySelector("[data-size]").textContent = `${number(fold.before_tokens)} → ${say("tokens", { n: number(fold.after_tokens) })}`;
    made.querySelector("[data-facts]").textContent = report ? say("facts", { kept: report.kept, found: report.found }) : "";
    made.querySelector("[data-label]").textContent = say("stands_for", { run });
    const area = made.querySelector("textarea");
    area.defaultValue = fold.text;
    area.dataset.start = fold.start_seq;
    area.dataset.run = `${fold.start_seq}-${fold.end_seq}`;
    if (report && report.lost.length) {
      made.querySelector("[data-lost]").hidden = false;
      made.querySelector("[data-lost-count]").textContent = say("lost", { n: number(report.found - report.kept) });
      made.querySelector("[data-lost-list]").append(...report.lost.map((fact) => orihon.element("li", { title: fact }, fact)));
    }
    return made;
  }

  // ---- clicks and keys ---------------------------------------------------------------------------------------------

  // What somebody has marked inside a message is the line that is meant.
  function marked(button) {
    const chosen = getSelection(), home = button.closest("[data-message], article, li, tr");
    return chosen && home && !chosen.isCollapsed && home.contains(chosen.anchorNode) ? chosen.toString().trim() : "";
  }
  const acts = {
    compress: ({ task }) => compress(task),
    undo: ({ task, compression }) => undo(task, compression),
    redo: ({ task, compression }) => redo(task, compression),
    unfold: ({ task, fold }) => unfold(task, fold),
    edit: ({ task, fold }) => edit(task, fold),
    pin: ({ task, seq, line }, button) => (line || !marked(button) ? pin(task, seq, line) : askLine(task, seq, marked(button))),
    unpin: ({ task, seq, line }) => unpin(task, seq, line),
    rewind: ({ task, seq }) => rewind(task, seq),
    fork: ({ task, seq }) => fork(task, seq),
    cancel: ({ task }) => cancel(task),
    pause: ({ task }) => wish(task, "pause"),
    resume: ({ task }) => wish(task, "resume"),
    retry: ({ task }) => wish(task, "retry"),
  };
  // A double click is one wish: the second half of it would undo what nobody has looked at yet.
  const PAUSE = 400, underWay = new Set();
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-act]");
    if (!button || button.disabled || !acts[button.dataset.act]) return;
    const { act, task, compression, fold, seq, line } = button.dataset, wish = [act, task, compression, fold, seq].join(" ");
    if (underWay.has(wish)) return;
    const numbers = { compression: Number(compression) || undefined, fold: Number(fold) || undefined, seq: Number(seq) || undefined };
    underWay.add(wish);
    button.setAttribute("aria-busy", "true");
    await attempt(() => acts[act]({ task, line: line || "", ...numbers }, button));
    button.removeAttribute("aria-busy");
    setTimeout(() => underWay.delete(wish), PAUSE);
  });
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target) || event.target.closest("a")) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && document.querySelector("details.menu[open]");
    if (!menu) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });

  // The buttons follow the task: what could be done a moment ago may make no sense now.
  const refresh = orihon.sparing(300, async () => {
    const bar = document.querySelector("[data-actions]"), focused = document.activeElement?.closest("[data-actions] [data-act]")?.dataset.act;
    bar.replaceWith(await orihon.piece(`/tasks/${encodeURIComponent(bar.dataset.task)}/actions`));
    if (focused) document.querySelector(`[data-actions] [data-act=${focused}]:not([disabled])`)?.focus();
  });
  const bar = () => document.querySelector("[data-actions]");
  document.addEventListener("orihon:changed", (event) => { if (bar()?.dataset.task === event.detail.task) refresh(); });
  document.addEventListener("DOMContentLoaded", () => {
    if (bar()) orihon.listen("/events", (state) => { if (state.missed || state.tasks.includes(bar().dataset.task)) refresh(); });
  });

  let before = "";
  document.addEventListener("keydown", (event) => {
    if (!bar() || event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog[open]")) return;
    const wanted = { c: "compress", u: "undo", r: "redo", p: "pause" }[event.key];
    const button = wanted && before !== "g" && (bar().querySelector(`[data-act=${wanted}]:not([disabled])`) || (wanted === "pause" && bar().querySelector("[data-act=resume]")));
    before = event.key;
    if (!button) return;
    event.preventDefault();
    button.click();
  });
  document.addEventListener("DOMContentLoaded", () => {
    const keys = document.querySelector("[data-action-keys]"), list = document.querySelector("[data-keys-dialog] dl");
    if (keys && list && document.querySelector("[data-actions]")) list.append(keys.content.cloneNode(true));
  });
  return { undo, attempt };
})();

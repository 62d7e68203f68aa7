// The page of a task: the conversation loads as one scrolls, folds open in place, what is new appears at the end.
"use strict";
(() => {
  const root = document.querySelector("[data-task]");
  const uuid = root.dataset.task;
  const base = `/tasks/${encodeURIComponent(uuid)}`;
  const box = root.querySelector("[data-conversation]");
  const news = root.querySelector("[data-news]");
  const MOST_STRETCHES = 8, NEAR_END = 60;
  const number = (n) => Number(n).toLocaleString(document.documentElement.lang);
  let end = Number(box?.dataset.end || 0), unseen = 0, busy = null, known = { compressions: null, checkpoints: null, status: root.dataset.statusNow };

  const stretches = () => [...box.querySelectorAll(":scope > .stretch")];
  const edge = (name) => box.querySelector(`:scope > [data-edge=${name}]`);
  const first = () => Number(stretches()[0]?.dataset.first || 1);
  const last = () => Number(stretches().at(-1)?.dataset.last || 0);
  const atEnd = () => box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END && last() >= end;

  // ---- loading ----------------------------------------------------------------------------------------------------

  // One load at a time: the next one begins where the last one has ended.
  function alone(act) {
    busy = (busy || Promise.resolve()).then(act).catch((error) => orihon.complain(error));
    return busy;
  }
  async function fetched(query) {
    const made = (await orihon.piece(`${base}/messages?${query}`)).querySelector(".stretch");
    orihon.times(made);
    return made;
  }
  // Whatever is put in or taken out above, what the reader looks at stays where it is.
  function keeping(act) {
    const anchor = [...box.querySelectorAll("[data-seq]")].find((one) => one.getBoundingClientRect().bottom > box.getBoundingClientRect().top + 4);
    const before = anchor?.getBoundingClientRect().top;
    act();
    if (anchor?.isConnected) box.scrollTop += anchor.getBoundingClientRect().top - before;
  }
  function edges() {
    edge("before").hidden = first() <= 1;
    edge("after").hidden = last() >= end;
  }
  const loadBefore = () => alone(async () => {
    if (first() <= 1) return;
    const made = await fetched(`before=${first()}`);
    keeping(() => {
      stretches()[0].before(made);
      for (const far of stretches().slice(MOST_STRETCHES)) far.remove();
      edges();
    });
  });
  const loadAfter = () => alone(async () => {
    if (last() >= end) return edges();
    const made = await fetched(`after=${last()}`);
    keeping(() => {
      if (Number(made.dataset.last) > last()) stretches().at(-1).after(made);
      for (const far of stretches().slice(0, -MOST_STRETCHES)) far.remove();
      edges();
    });
  });
  async function showAt(seq) {
    const made = await fetched(seq >= end ? `before=${end + 1}` : `at=${seq}`);
    for (const one of stretches()) one.remove();
    edge("before").after(made);
    edges();
  }

  // ---- going somewhere -----------------------------------------------------------------------------------------------

  function find(seq) {
    const exact = box.querySelector(`#m${seq}`);
    if (exact) return exact;
    const about = (one) => Number(one.dataset.seq) <= seq && seq <= Number(one.dataset.end);
    return [...box.querySelectorAll(".fold[data-seq]")].filter(about).at(-1) || null; // the innermost one
  }
  function show(target, { focus = true } = {}) {
    for (const old of box.querySelectorAll(".found")) old.classList.remove("found");
    target.classList.add("found");
    const area = box.getBoundingClientRect(); // on a phone it may be far below
    if (Math.min(area.bottom, innerHeight) - Math.max(area.top, 0) < 160) box.scrollIntoView({ block: "start" });
    // What comes into view may turn out taller than was guessed: a second look puts it right.
    for (const wait of [0, 60]) setTimeout(() => {
      box.scrollTop += target.getBoundingClientRect().top - box.getBoundingClientRect().top - Math.min(60, box.clientHeight / 5);
    }, wait);
    if (focus) target.focus({ preventScroll: true });
  }
  // Opens the folds about a message until it is there itself, each of them at that place.
  async function reveal(seq) {
    for (let fold = find(seq), tried = null; fold?.matches(".fold") && fold !== tried; tried = fold, fold = find(seq)) {
      const details = fold.querySelector(":scope > details.inside");
      details.dataset.loaded = "1";
      details.open = true;
      await openInside(details, seq);
    }
    for (let at = find(seq)?.parentElement.closest("details.inside"); at; at = at.parentElement.closest("details.inside")) at.open = true;
  }
  // To a message; into the folds that hold it only where `inside` is wanted.
  const jump = (seq, { inside = true } = {}) => alone(async () => {
    if (!(seq >= 1)) return;
    if (seq > end) seq = end;
    if (!find(seq)) await showAt(seq);
    if (inside) await reveal(seq);
    const target = find(seq);
    if (target) show(target);
    history.replaceState(null, "", `${base}?at=${seq}${inside ? `#m${seq}` : ""}`); // a copy of the address leads there, too
    report();
  });
  const toEnd = () => alone(async () => {
    if (last() < end) await showAt(end);
    bottom();
    unseen = 0;
    tellNews();
    history.replaceState(null, "", base);
  });
  function bottom() {
    box.scrollTop = box.scrollHeight;
    requestAnimationFrame(() => { box.scrollTop = box.scrollHeight; });
  }

  // ---- folds and long messages -------------------------------------------------------------------------------------------

  async function openInside(details, at = null) {
    if (!details.open || (details.dataset.loaded && at === null)) return;
    details.dataset.loaded = "1";
    const into = details.querySelector(".inside-items");
    into.textContent = orihon.say("loading");
    try {
      const made = await orihon.piece(details.dataset.inside + (at === null ? "" : `?at=${at}`));
      into.replaceChildren(made);
      orihon.times(into);
    } catch (error) { delete details.dataset.loaded; details.open = false; orihon.complain(error); }
  }
  async function openFold(id, start) {
    if (!box.querySelector(`#f${id}`)) await jump(start, { inside: false });
    const fold = box.querySelector(`#f${id}`);
    if (!fold) return;
    show(fold);
    fold.querySelector(":scope > details.inside").open = true;
  }
  async function replace(link) {
    link.setAttribute("aria-busy", "true");
    try {
      const made = await orihon.piece(link.getAttribute("href"));
      const whole = link.matches("[data-whole]");
      const target = whole ? link.closest("article") : link;
      const now = whole ? made.querySelector("article") : made;
      const parent = target.parentElement;
      target.replaceWith(now);
      orihon.times(parent);
    } catch (error) { orihon.complain(error); }
  }

  // ---- what is new ------------------------------------------------------------------------------------------------------

  function tellNews() {
    if (!news) return;
    news.hidden = !unseen;
    news.textContent = orihon.say("new_messages", { n: number(unseen) });
  }
  function append(html, from) {
    const made = orihon.fragment(html).querySelector(".stretch");
    if (!made || Number(made.dataset.first) > last() + 1) return false;
    const fresh = [...made.children].filter((one) => !one.dataset.seq || Number(one.dataset.end || one.dataset.seq) > last());
    const into = stretches().at(-1);
    for (const one of fresh) { one.classList.add("new"); into.append(one); }
    into.dataset.last = made.dataset.last;
    orihon.times(into);
    if (into.children.length > 60) split(into);
    return true;
  }
  // A page that follows for hours must not grow for hours.
  function split(stretch) {
    const next = stretch.cloneNode(false);
    const items = [...stretch.children], cut = items.findIndex((one, at) => at >= 40 && one.dataset.seq);
    if (cut < 0) return;
    next.dataset.first = items[cut].dataset.seq;
    stretch.dataset.last = Number(items[cut].dataset.seq) - 1;
    next.append(...items.slice(cut));
    stretch.after(next);
    for (const far of stretches().slice(0, -MOST_STRETCHES)) far.remove();
    edges();
  }
  async function hear(state) {
    const before = known;
    known = { compressions: state.compressions, checkpoints: state.checkpoints, status: state.status };
    figures(state);
    if (hasBegun(state, before) || isGone(state, before)) { location.reload(); return; }
    if (box) await alone(() => come(state));
    else timeline.add(state.messages, state.tokens);
    // Folds may have been made between this page and its first news.
    const refolded = state.compressions !== (before.compressions ?? Number(root.dataset.changes));
    if (refolded) { await refold(); timeline.reload(); }
    if (refolded || (before.checkpoints !== null && before.checkpoints !== state.checkpoints) || before.status !== state.status) refreshHead();
  }
  // The first message of a task that had none: there is a conversation to show now. What was said before this page was
  // made and cannot be read is asked for once, not again and again.
  function hasBegun(state, before) {
    if (!state.messages || (root.dataset.here !== undefined && !root.querySelector("[data-nothing]"))) return false;
    return before.compressions !== null || performance.getEntriesByType("navigation")[0]?.type !== "reload";
  }
  // Erased while somebody looks: what it has said does not stay on a screen.
  const isGone = (state, before) => Boolean(before.status) && !state.status && !state.messages;
  async function come(state) {
    if (state.messages <= end) return;
    const added = state.messages - end, follows = atEnd();
    const wasAt = last(), wasComplete = wasAt >= end;
    end = state.messages;
    timeline.add(state.messages, state.tokens);
    root.querySelector("#goto")?.setAttribute("max", end);
    if (wasComplete && follows) {
      if (!(state.html && append(state.html, wasAt)) || last() < end) {
        if (end - last() > 200) await showAt(end);
        else while (last() < end) { const made = await fetched(`after=${last()}`); if (Number(made.dataset.last) <= last()) break; stretches().at(-1).after(made); }
        for (const far of stretches().slice(0, -MOST_STRETCHES)) far.remove();
      }
      edges();
      bottom();
      return;
    }
    if (wasComplete && state.html) append(state.html, wasAt);
    edges();
    unseen += added;
    tellNews();
  }
  // Folds have been made or opened: the same stretch of the log, as it stands now.
  let refolding = null;
  function refold() {
    if (!box) return Promise.resolve();
    refolding = refolding || alone(async () => {
      refolding = null;
      const follows = atEnd(), focused = document.activeElement?.id;
      const top = [...box.querySelectorAll("[data-seq]")].find((one) => one.getBoundingClientRect().bottom > box.getBoundingClientRect().top + 4);
      const seq = Number(top?.dataset.seq || end), offset = top ? top.getBoundingClientRect().top : 0;
      const opened = [...box.querySelectorAll("details.inside[open]")].map((one) => one.dataset.inside);
      await showAt(follows ? end : seq);
      for (const inside of opened) { const details = box.querySelector(`details.inside[data-inside="${inside}"]`); if (details) details.open = true; }
      const again = follows ? null : find(seq);
      if (follows) bottom();
      else if (again) box.scrollTop += again.getBoundingClientRect().top - offset;
      if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
    });
    return refolding;
  }
  function figures(state) {
    const usage = state.usage;
    if (usage === null || usage === undefined || root.dataset.here === undefined) return; // of what is not here, the row knows more
    const head = root.querySelector("[data-head]");
    head.querySelector("[data-usage]").textContent = `${Math.round(100 * usage)} %`;
    head.querySelector("[data-tokens]").textContent = number(state.tokens);
    head.querySelector("svg.meter .fill")?.setAttribute("width", Math.min(100, 100 * usage).toFixed(1));
    for (const [tab, count] of [["tools", state.tools], ["plans", state.planning], ["summaries", state.summaries], ["changes", state.compressions]]) tabCount(tab, count);
    head.querySelector("[data-count=messages]").textContent = number(state.messages);
    head.querySelector("[data-count=compressions]").textContent = number(state.compressions);
  }
  function tabCount(tab, count) {
    const place = root.querySelector(`[data-tab=${tab}]`);
    if (!place) return;
    place.textContent = number(count);
    place.hidden = !count;
  }
  let refreshing = null;
  function refreshHead() {
    if (refreshing) return;
    refreshing = setTimeout(async () => {
      refreshing = null;
      try {
        const made = (await orihon.piece(`${base}/head`)).querySelector("[data-head]");
        root.querySelector("[data-head]").replaceWith(made);
        orihon.times(made);
      } catch { /* the next change tries again */ }
    }, 100 + Math.random() * 200);
  }

  // Where the reader is, for the timeline.
  let reporting = null;
  function report() {
    if (reporting || !box) return;
    reporting = requestAnimationFrame(() => {
      reporting = null;
      const area = box.getBoundingClientRect();
      const seen = [...box.querySelectorAll(":scope > .stretch > [data-seq]")].filter((one) => { const at = one.getBoundingClientRect(); return at.bottom > area.top && at.top < Math.min(area.bottom, innerHeight); });
      if (seen.length) timeline.here(Number(seen[0].dataset.seq), Number(seen.at(-1).dataset.end || seen.at(-1).dataset.seq));
      if (unseen && atEnd()) { unseen = 0; tellNews(); }
    });
  }

  // ---- hands ------------------------------------------------------------------------------------------------------------

  root.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (link?.matches("[data-more], [data-whole]")) { event.preventDefault(); replace(link); }
    else if (link?.matches("[data-edge=before]")) { event.preventDefault(); loadBefore(); }
    else if (link?.matches("[data-edge=after]")) { event.preventDefault(); loadAfter(); }
    const jumped = event.target.closest("[data-jump]")?.dataset.jump;
    if (jumped) (jumped === "end" ? toEnd() : jump(1, { inside: false }));
    if (event.target.closest("[data-news]")) toEnd();
    for (const open of root.querySelectorAll("details.acts[open]")) if (!open.contains(event.target) || event.target.closest("[data-act]")) open.open = false;
  });
  root.addEventListener("toggle", (event) => { if (event.target.matches("details.inside")) openInside(event.target); }, true);
  root.querySelector("[data-goto]")?.addEventListener("submit", (event) => { event.preventDefault(); jump(Number(event.target.at.value)); event.target.at.value = ""; });
  root.addEventListener("timeline:seq", (event) => { if (box) jump(event.detail); else location.assign(`${base}?at=${event.detail}#m${event.detail}`); });
  root.addEventListener("timeline:fold", (event) => {
    const fold = event.detail;
    if (!box) location.assign(`${base}?at=${fold.start}#f${fold.id}`);
    else if (fold.form === "summary") openFold(fold.id, fold.start);
    else jump(fold.start);
  });
  document.addEventListener("orihon:changed", (event) => { if (event.detail.task === uuid) { refold().then(() => timeline.reload()); refreshHead(); } });
  document.addEventListener("keydown", (event) => {
    if (!box || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog[open]")) return;
    if (event.key === "Escape") for (const open of root.querySelectorAll("details.acts[open]")) { open.open = false; open.querySelector("summary").focus(); }
    else if (event.key === "e") toEnd();
    else if (event.key === "b") jump(1, { inside: false });
    else if (event.key === "#") { event.preventDefault(); root.querySelector("#goto").focus(); }
    else if (event.key === "[" || event.key === "]") nextFold(event.key === "]" ? 1 : -1);
    else if (event.key === "o") { const details = document.activeElement?.closest(".fold")?.querySelector(":scope > details.inside"); if (details) details.open = !details.open; }
    else if (event.key === "v") { const seq = document.activeElement?.closest("[data-seq]")?.dataset.seq; if (seq) location.assign(`${base}/view?at=${seq}`); }
  });
  function nextFold(step) {
    const current = Number(document.activeElement?.closest("[data-seq]")?.dataset.seq || (step > 0 ? first() : last()));
    const folds = (timeline.data?.folds || []).filter((fold) => fold.form === "summary" && (step > 0 ? fold.start > current : fold.start < current));
    const next = step > 0 ? folds[0] : folds.at(-1);
    if (next) jump(next.start, { inside: false });
  }

  function fit() {
    if (!box || matchMedia("(max-width: 720px)").matches) return;
    const above = box.getBoundingClientRect().top + scrollY, follows = atEnd();
    box.style.height = `${Math.max(216, innerHeight - above - 14)}px`;
    if (follows) bottom();
  }

  document.addEventListener("DOMContentLoaded", () => {
    const section = root.querySelector("[data-timeline]");
    if (section) timeline.start(section);
    if (box) {
      fit();
      addEventListener("resize", fit);
      const above = new ResizeObserver(fit); // heads and timelines grow when more is to be said
      for (const one of root.querySelectorAll(".top-card, .timeline")) above.observe(one);
      const at = Number(box.dataset.at), named = location.hash.match(/^#[fm]\d+$/) && box.querySelector(location.hash);
      if (!named && location.hash === `#m${at}`) jump(at); // a folded message that a search has found
      else if (named || (at && find(at))) show(named || find(at), { focus: false });
      else bottom();
      if (named?.matches(".fold")) named.querySelector(":scope > details.inside").open = true;
      box.addEventListener("scroll", report, { passive: true });
      const watcher = new IntersectionObserver((seen) => {
        for (const one of seen) if (one.isIntersecting) (one.target.dataset.edge === "before" ? loadBefore : loadAfter)();
      }, { root: box, rootMargin: "600px 0px" });
      // An edge that stays in sight says nothing again by itself: it is watched anew after each load.
      const watch = () => { for (const name of ["before", "after"]) { watcher.unobserve(edge(name)); watcher.observe(edge(name)); } };
      setTimeout(() => { watch(); new MutationObserver(watch).observe(box, { childList: true }); }, 250);
      report();
    }
    orihon.listen(`${base}/events?after=${end}`, hear);
  });
})();

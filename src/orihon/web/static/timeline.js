// The timeline of a task: tokens of the view over the log, folds as bands, changes as drops. Drag to look closer.
"use strict";
const timeline = (() => {
  const NS = "http://www.w3.org/2000/svg";
  const M = { left: 46, right: 10, top: 17, bottom: 18 };
  const LOW = matchMedia("(min-width: 721px) and (max-height: 860px)"), SMALLEST_RUN = 10;
  let place, path, data, view = null, ends = null, extra = [], pending = null, here = null, svg = null, high = 138;
  const number = (n) => Number(n).toLocaleString(document.documentElement.lang);
  const short = (n) => n >= 1e6 ? `${+(n / 1e6).toFixed(1)}M` : n >= 1e3 ? `${+(n / 1e3).toFixed(n < 1e4 ? 1 : 0)}k` : `${Math.round(n)}`;
  // Words of the records in the reader's language; what has no name is shown as it is.
  const names = new Map(Object.entries(JSON.parse(document.getElementById("timeline-names")?.textContent || "{}")).map(([field, words]) => [field, new Map(Object.entries(words))]));
  const called = (field, word) => names.get(field)?.get(word) ?? word;
  const how = (strategy) => strategy.split(/([+ ])/).map((one) => ({ "+": " + ", " ": " · " })[one] ?? called("strategy", one)).join("");
  const make = (name, attributes, parent = svg) => {
    const made = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (parent) parent.append(made);
    return made;
  };

  // Who turns a wheel asks faster than is answered: only the last answer counts.
  let round = 0, goal = null;
  async function load(range = view, aim = null) {
    const reached = () => { if (goal === aim) goal = null; }; // a turn of the wheel meanwhile is still to be followed
    const query = range ? `?first=${range[0]}&last=${range[1]}` : "", mine = ++round;
    let found;
    try {
      found = await orihon.api("GET", path + query);
    } catch (error) {
      if (mine !== round) return;
      reached();
      // A drawing that is there says more than that it cannot be made anew.
      if (data) orihon.complain(error); else place.textContent = error.message;
      return;
    }
    if (mine !== round) return;
    reached();
    data = found;
    view = range ? [data.first, data.last] : null;
    extra = extra.filter(([seq]) => seq > data.end);
    draw();
    place.dispatchEvent(new CustomEvent("timeline:drawn", { bubbles: true, detail: data }));
  }
  // Many changes in a short time are one look at the server; pages that are open side by side do not ask all at once.
  function reload() {
    if (pending || !place) return; // a page of a task that is not here has none
    pending = setTimeout(() => { pending = null; if (goal) ask(); else load(); }, 150 + Math.random() * 350);
  }
  // A message that has come: the line goes on without asking.
  function add(seq, tokens) {
    if (!data || seq <= Math.max(data.end, ...extra.slice(-1).map(([last]) => last))) return;
    extra.push([seq, tokens]);
    if (extra.length > 400) reload();
    draw();
  }

  function scales(width) {
    const points = view ? data.points : data.points.concat(extra);
    const [first, last] = view || [1, Math.max(2, points.length ? points[points.length - 1][0] : 2)];
    const highest = Math.max(1, ...points.map(([, tokens]) => tokens));
    const top = highest > data.budget * 0.45 ? Math.max(highest, data.budget) * 1.06 : highest * 1.25;
    const x = (seq) => M.left + (seq - first) / Math.max(1, last - first) * (width - M.left - M.right);
    const y = (tokens) => high - M.bottom - tokens / top * (high - M.top - M.bottom);
    const seq = (px) => Math.max(first, Math.min(last, Math.round(first + (px - M.left) / (width - M.left - M.right) * (last - first))));
    return { points, first, last, top, x, y, seq, width };
  }

  function draw() {
    if (!data || !place) return;
    const width = Math.max(240, place.clientWidth);
    high = LOW.matches ? 104 : 138;
    const s = ends = scales(width);
    const focused = document.activeElement?.dataset?.mark;
    svg = make("svg", { viewBox: `0 0 ${width} ${high}`, height: high, class: "chart", role: "group", "aria-label": orihon.say("chart_label", { tokens: number(data.tokens), end: number(data.end), budget: number(data.budget) }) }, null);
    grid(s);
    const bottom = high - M.bottom;
    if (s.points.length) {
      const line = s.points.map(([seq, tokens], at) => `${at ? "L" : "M"}${s.x(seq).toFixed(1)},${s.y(tokens).toFixed(1)}`).join("");
      make("path", { class: "area", d: `${line}L${s.x(s.points[s.points.length - 1][0]).toFixed(1)},${bottom}L${s.x(s.points[0][0]).toFixed(1)},${bottom}Z` });
      for (const fold of data.folds) band(s, fold, bottom);
      make("path", { class: "line", d: line });
    }
    measures(s);
    for (const seq of data.pins) pin(s, seq, bottom);
    for (const change of data.changes) if (change.before !== change.after) drop(s, change);
    make("rect", { class: "here", y: M.top, height: bottom - M.top, x: 0, width: 0, visibility: "hidden" });
    make("line", { class: "hover", y1: M.top, y2: bottom, x1: -9, x2: -9 });
    make("rect", { class: "chosen", y: M.top, height: bottom - M.top, x: 0, width: 0 });
    place.replaceChildren(svg);
    if (data.folds_left_out && !view) place.append(orihon.element("p", { class: "quiet small" }, orihon.say("folds_left_out", { n: number(data.folds_left_out) })));
    if (focused) place.querySelector(`[data-mark="${focused}"]`)?.focus({ preventScroll: true });
    mark();
  }
  function grid(s) {
    const step = nice(s.top / 3);
    for (let tokens = 0; tokens <= s.top; tokens += step) {
      make("line", { class: "grid", x1: M.left, x2: s.width - M.right, y1: s.y(tokens), y2: s.y(tokens) });
      make("text", { x: M.left - 6, y: s.y(tokens) + 4, "text-anchor": "end" }).textContent = short(tokens);
    }
    const apart = Math.max(1, nice((s.last - s.first) / Math.max(2, s.width / 130)));
    for (let seq = Math.ceil(s.first / apart) * apart; seq <= s.last; seq += apart) {
      const at = s.x(seq);
      if (at < M.left + 12 || at > s.width - M.right - 12) continue;
      make("text", { x: at, y: high - 4, "text-anchor": "middle" }).textContent = `#${short(seq)}`;
    }
  }
  function nice(wanted) {
    const unit = 10 ** Math.floor(Math.log10(Math.max(wanted, 1)));
    return Math.max(1, [1, 2, 5, 10].map((times) => times * unit).find((step) => step >= wanted));
  }
  function measures(s) {
    if (data.budget <= s.top) {
      make("line", { class: "budget", x1: M.left, x2: s.width - M.right, y1: s.y(data.budget), y2: s.y(data.budget) });
      make("text", { class: "budget-label", x: M.left + 4, y: s.y(data.budget) - 5 }).textContent = `${orihon.say("budget")} ${short(data.budget)}`;
    }
    for (const rung of data.rungs) if (rung <= s.top) make("line", { class: "rung", x1: M.left, x2: s.width - M.right, y1: s.y(rung), y2: s.y(rung) });
  }
  function marked(shape, key, text, act) {
    shape.dataset.mark = key;
    shape.setAttribute("role", "button");
    shape.setAttribute("aria-label", text.replace(/\n+/g, ", "));
    shape.setAttribute("tabindex", "0");
    shape.dataset.tip = text;
    shape.addEventListener("focus", () => { const box = shape.getBoundingClientRect(); orihon.showTip(text, box.left + box.width / 2, box.top); });
    shape.addEventListener("blur", orihon.hideTip);
    shape.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(); } });
    shape.addEventListener("chosen", act);
  }
  function band(s, fold, bottom) {
    const start = Math.max(M.left, s.x(fold.start)), end = Math.min(s.width - M.right, s.x(fold.end));
    if (end < M.left || start > s.width - M.right) return;
    const size = { x: start.toFixed(1), width: Math.max(end - start - 1, 1.5).toFixed(1) };
    const shape = make("rect", { class: "band", y: M.top, height: bottom - M.top, ...size });
    make("rect", { class: "band-top", y: bottom - 3, height: 3, ...size });
    const text = orihon.say("tip_fold", { ...fold, strategy: how(fold.strategy), reason: called("reason", fold.reason), start: number(fold.start), end: number(fold.end), before: number(fold.before), after: number(fold.after) }).replace(/\n+/g, "\n").trim();
    marked(shape, `f${fold.id}`, text, () => place.dispatchEvent(new CustomEvent("timeline:fold", { bubbles: true, detail: fold })));
    if (end - start < 3) shape.setAttribute("tabindex", "-1");
  }
  function drop(s, change) {
    const shape = make("circle", { class: "drop", cx: s.x(change.seq), cy: s.y(change.after), r: 4 });
    const text = orihon.say("tip_change", { ...change, kind: called("kind", change.kind), strategy: how(change.strategy), seq: number(change.seq), before: number(change.before), after: number(change.after) }).trim();
    marked(shape, `c${change.id}`, text, () => location.assign(`/tasks/${data.task}/compare/${change.id}`));
  }
  function pin(s, seq, bottom) {
    const shape = make("rect", { class: "pinned", x: s.x(seq) - 1.25, width: 2.5, y: bottom - 10, height: 10 });
    make("title", {}, shape).textContent = orihon.say("tip_pin", { seq });
  }

  // Where the reader is in the conversation.
  function mark() {
    const shape = svg?.querySelector(".here");
    if (!shape || !here || here[1] < ends.first || here[0] > ends.last) { shape?.setAttribute("visibility", "hidden"); return; }
    const start = Math.max(M.left, ends.x(here[0])), end = Math.min(ends.width - M.right, ends.x(here[1]));
    shape.setAttribute("visibility", "visible");
    shape.setAttribute("x", start - 1);
    shape.setAttribute("width", Math.max(2, end - start + 2));
  }

  function pointer() {
    let from = null;
    const at = (event) => event.clientX - place.getBoundingClientRect().left;
    place.addEventListener("pointerdown", (event) => { if (svg && event.button === 0) from = at(event); });
    place.addEventListener("pointermove", (event) => {
      if (!svg || !ends) return;
      const px = at(event), seq = ends.seq(px);
      const line = svg.querySelector(".hover");
      line.setAttribute("x1", ends.x(seq)); line.setAttribute("x2", ends.x(seq));
      const tip = event.target.closest?.("[data-tip]")?.dataset.tip;
      orihon.showTip((tip ? `${tip}\n` : "") + pointText(seq), event.clientX, event.clientY);
      const chosen = svg.querySelector(".chosen");
      const is_drag = from !== null && Math.abs(px - from) > 6 && event.pointerType !== "touch";
      chosen.setAttribute("x", Math.min(from ?? 0, px)); chosen.setAttribute("width", is_drag ? Math.abs(px - from) : 0);
    });
    place.addEventListener("pointerleave", () => { orihon.hideTip(); svg?.querySelector(".hover").setAttribute("x1", -9); svg?.querySelector(".hover").setAttribute("x2", -9); });
    window.addEventListener("pointerup", (event) => {
      if (from === null || !svg) return;
      const px = at(event), start = from;
      from = null;
      svg.querySelector(".chosen").setAttribute("width", 0);
      if (Math.abs(px - start) > 6 && event.pointerType !== "touch") zoom(ends.seq(Math.min(px, start)), ends.seq(Math.max(px, start)));
      else if (place.contains(event.target)) choose(event, ends.seq(px));
    });
    place.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      const turned = (event.deltaY || event.deltaX) * (event.deltaMode ? 30 : 1); // in lines, or in pixels
      if (ends) around(ends.seq(at(event)), Math.exp(Math.max(-1, Math.min(1, turned / 150))));
    }, { passive: false });
  }
  function choose(event, seq) {
    const shape = event.target.closest?.("[data-mark]");
    if (shape) shape.dispatchEvent(new Event("chosen"));
    else place.dispatchEvent(new CustomEvent("timeline:seq", { bubbles: true, detail: seq }));
  }
  function pointText(seq) {
    let tokens = 0;
    for (const point of ends.points) { if (point[0] > seq) break; tokens = point[1]; }
    return orihon.say("tip_point", { seq: number(seq), tokens: number(tokens), percent: `${Math.round(100 * tokens / data.budget)} %` });
  }
  function zoom(first, last) {
    const end = Math.max(data.end, 1), least = Math.min(SMALLEST_RUN, end - 1);
    if (last - first < least) { first = Math.max(1, Math.round((first + last - least) / 2)); last = first + least; }
    goal = [Math.max(1, first), Math.min(end, last)];
    ask();
  }
  const ask = orihon.sparing(120, () => goal && load(goal[0] <= 1 && goal[1] >= data.end ? null : goal, goal));
  // Closer to a message, which stays where it is on the screen.
  function around(middle, factor) {
    const [first, last] = goal || view || [1, data.end];
    zoom(Math.round(middle - (middle - first) * factor), Math.round(middle + (last - middle) * factor));
  }

  function start(section) {
    place = section.querySelector("[data-plot]");
    path = section.dataset.timeline;
    pointer();
    section.addEventListener("click", (event) => {
      const range = event.target.closest("[data-range]")?.dataset.range;
      if (!range || !data) return;
      const [first, last] = view || [1, data.end];
      if (range === "all") zoom(1, data.end);
      else around(here && here[0] >= first && here[1] <= last ? (here[0] + here[1]) / 2 : (first + last) / 2, range === "in" ? 0.4 : 2.5);
    });
    new ResizeObserver(() => draw()).observe(place);
    load(null);
  }
  return { start, reload, add, here: (first, last) => { here = [first, last]; mark(); }, get data() { return data; } };
})();

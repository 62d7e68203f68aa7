// What every page does: keep in touch with the server, show notices, answer to keys. No page needs it to be read.
"use strict";
const orihon = (() => {
  // Whoever is let in already needs no token: it does not stay in the address for others to see.
  const forgetToken = () => { if (location.hash.startsWith("#token=")) history.replaceState(null, "", location.pathname + location.search); };
  forgetToken();
  window.addEventListener("hashchange", forgetToken);
  for (const place of document.querySelectorAll("[data-origin]")) place.textContent = location.origin; // a proxy may be between
  const texts = JSON.parse(document.getElementById("texts").textContent);
  const mark = document.querySelector("meta[name=csrf]").content;
  const say = (name, fields = {}) => (texts[name] || name).replace(/\{(\w+)\}/g, (_, field) => fields[field] ?? "");

  const reached = (path, options) => fetch(path, options).catch(() => { throw new Error(say("unreachable")); });
  // One request to the JSON API. Throws an Error whose message says cause and remedy, and that has status and reason.
  async function api(method, path, body) {
    const headers = { "x-csrf-token": mark };
    if (body !== undefined) headers["content-type"] = "application/json";
    const answer = await reached(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    const value = await answer.json().catch(() => null);
    if (answer.status === 401) throw Object.assign(new Error(say("logged_out")), { status: 401, reason: "token" });
    if (!answer.ok) {
      const said = value && value.error ? `${value.error.cause} ${value.error.remedy}` : `${say("failed")} (${answer.status})`;
      throw Object.assign(new Error(said), { status: answer.status, reason: (value && value.error && value.error.reason) || "" });
    }
    return value;
  }

  // A piece of HTML that the server has rendered, as elements.
  async function piece(path) {
    const answer = await reached(path, { headers: { "x-csrf-token": mark } });
    if (answer.status === 401) loggedOut();
    if (!answer.ok) throw Object.assign(new Error(`${say("failed")} (${answer.status})`), { status: answer.status });
    return fragment(await answer.text());
  }
  function fragment(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content;
  }

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
      else if (value !== false && value != null) made.setAttribute(key, value === true ? "" : value);
    }
    made.append(...children);
    return made;
  }

  // A notice in the corner: which task it is about, where that is not clear. Actions are pairs of a label and what to do.
  function toast(message, { kind = "", about = "", actions = [], seconds = 8 } = {}) {
    const shown = element("div", { class: `toast ${kind}`, role: kind === "bad" && "alert" }, element("p", {}, message));
    if (about) shown.prepend(element("p", { class: "small quiet" }, element("bdi", {}, about)));
    const row = element("div", { class: "row" });
    for (const [label, act] of actions) row.append(element("button", { type: "button", class: "small", onclick: () => { shown.remove(); act(); } }, label));
    row.append(element("button", { type: "button", class: "small plain", onclick: () => shown.remove() }, say("close")));
    shown.append(row);
    document.querySelector("[data-toasts]").append(shown);
    if (seconds) setTimeout(() => shown.remove(), seconds * 1000);
    return shown;
  }
  const complain = (error) => (error.status === 401 ? loggedOut() : toast(error.message, { kind: "bad", seconds: 15 }));
  // Said once, and it stays: the page itself is left alone, for somebody may have written in it.
  let isOver = null;
  function loggedOut() {
    if (isOver?.isConnected) return;
    isOver = toast(say("logged_out"), { kind: "bad", seconds: 0, actions: [[say("log_in"), () => location.reload()]] });
  }

  // Server-sent events that come back by themselves. `hear` gets each change; whoever comes later hears the last one
  // first. One connection for an address, and none for a page that nobody sees: a browser has only six to give.
  // A page may want more of the stream of the whole site, which it names as data-events.
  const streams = new Map();
  function listen(path, hear) {
    if (path === "/events") path = document.querySelector("[data-events]")?.dataset.events || path;
    let stream = streams.get(path);
    if (!stream) streams.set(path, (stream = openStream(path)));
    stream.hearers.push(hear);
    if (stream.last !== undefined) hear(stream.last);
  }
  function openStream(path) {
    const stream = { hearers: [], last: undefined, on: false };
    let source = null, delay = 500, timer = 0;
    const close = () => { clearTimeout(timer); if (source) source.close(); source = null; };
    const again = () => { clearTimeout(timer); timer = setTimeout(open, delay); delay = Math.min(delay * 2, 5000); };
    function open() {
      close();
      if (document.hidden) return;
      source = new EventSource(path);
      source.addEventListener("open", () => { delay = 500; stream.on = true; showLive(); });
      source.addEventListener("change", (event) => {
        stream.last = JSON.parse(event.data);
        for (const hear of stream.hearers) hear(stream.last);
      });
      source.addEventListener("error", () => {
        stream.on = false;
        showLive();
        if (source && source.readyState === EventSource.CLOSED) { again(); stillIn(); }
      });
    }
    open();
    document.addEventListener("visibilitychange", () => {
      clearTimeout(timer);
      if (document.hidden) timer = setTimeout(() => { close(); stream.on = false; showLive(); }, 3000);
      else if (!source || source.readyState === EventSource.CLOSED) open();
    });
    window.addEventListener("pagehide", close);
    window.addEventListener("pageshow", (event) => { if (event.persisted) open(); });
    return stream;
  }
  // A stream that is refused does not say why: perhaps nobody is logged in any more.
  const stillIn = () => fetch("/api/health").then((answer) => { if (answer.status === 401) loggedOut(); }, () => null);
  // The dot in the corner.
  function showLive() {
    const dot = document.querySelector("[data-live]"), on = [...streams.values()].every((stream) => stream.on);
    dot.toggleAttribute("data-on", on);
    dot.title = dot.querySelector("span").textContent = say(on ? "live_on" : "live_off");
  }

  // What `act` does, at most once in `milliseconds`, and never twice at the same time; the last call is never lost.
  function sparing(milliseconds, act) {
    let busy = false, wanted = false, last = -Infinity;
    async function run() {
      wanted = true;
      if (busy) return;
      busy = true;
      while (wanted) {
        await new Promise((done) => setTimeout(done, Math.max(0, last + milliseconds - performance.now())));
        wanted = false;
        last = performance.now();
        await Promise.resolve(act()).catch(() => null); // the next change tries again
      }
      busy = false;
    }
    return run;
  }

  // Times in the reader's own zone, and how long ago they were: by the server's clock, which has written them.
  const arrived = performance.timeOrigin + (performance.getEntriesByType("navigation")[0]?.responseStart || 0);
  const ahead = arrived - Date.parse(document.querySelector("meta[name=now]").content);
  const now = () => Date.now() - (Math.abs(ahead) > 10000 ? ahead : 0);
  const local = (at) => new Date(at - new Date(at).getTimezoneOffset() * 60000).toISOString().slice(0, 19).replace("T", " ");
  function ago(stamp) {
    const seconds = Math.max(0, (now() - Date.parse(stamp)) / 1000);
    if (seconds < 60) return say("ago_seconds", { n: Math.round(seconds) });
    if (seconds < 3600) return say("ago_minutes", { n: Math.round(seconds / 60) });
    if (seconds < 86400) return say("ago_hours", { n: Math.round(seconds / 3600) });
    return say("ago_days", { n: Math.round(seconds / 86400) });
  }
  function times(root = document) {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const stamp = time.getAttribute("datetime");
      if (Number.isNaN(Date.parse(stamp))) continue;
      time.title = new Date(stamp).toLocaleString(document.documentElement.lang);
      if (time.dataset.ago !== undefined) time.textContent = ago(stamp);
      else if (time.dataset.until === undefined) time.textContent = local(Date.parse(stamp));
    }
  }

  // A small box beside the pointer or the focused element.
  let tip;
  function showTip(text, x, y) {
    tip = tip || document.body.appendChild(element("div", { class: "tip", role: "tooltip" }));
    tip.textContent = text;
    tip.hidden = false;
    tip.style.left = `${Math.min(x + 12, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.max(8, y - tip.offsetHeight - 10)}px`;
  }
  const hideTip = () => { if (tip) tip.hidden = true; };

  function prefer(name, value) {
    document.cookie = `${name}=${value}; path=/; max-age=31536000; samesite=strict`;
  }

  function keys() {
    let before = "";
    const places = { t: "tasks", a: "approvals", f: "search", s: "statistics", w: "workers", n: "notifications", c: "settings" };
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog[open]")) return;
      if (before === "g" && places[event.key]) document.querySelector(`nav [data-place=${places[event.key]}]`)?.click();
      else if (event.key === "?") document.querySelector("[data-keys-dialog]").showModal();
      else if (event.key === "/") { const box = document.querySelector("[data-find]"); if (box) { event.preventDefault(); box.focus(); } }
      else if (event.key === "j" || event.key === "k") walk(event.key === "j" ? 1 : -1);
      before = event.key;
    });
  }
  // Elements with data-walk can be gone through with j and k.
  function walk(step) {
    const goals = "a[href], button, summary, [tabindex]";
    const all = [...document.querySelectorAll("[data-walk]")].filter((one) => one.matches(goals) || one.querySelector(goals));
    const at = all.findIndex((one) => one.contains(document.activeElement));
    const next = all[Math.max(0, Math.min(all.length - 1, at + step))];
    if (next) (next.matches(goals) ? next : next.querySelector(goals)).focus();
  }

  document.addEventListener("DOMContentLoaded", () => {
    times();
    setInterval(times, 10000);
    keys();
    const showPlace = () => document.querySelector("header [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
    showPlace();
    if (document.querySelector("[data-waiting]")) {
      listen("/events", (state) => {
        const pill = document.querySelector("[data-waiting]");
        pill.textContent = state.waiting > 99 ? "99+" : state.waiting;
        if (pill.hidden !== !state.waiting) { pill.hidden = !state.waiting; showPlace(); } // it moves what stands beside it
        pill.title = say("waiting", { n: state.waiting });
      });
    }
    document.addEventListener("click", async (event) => {
      const target = event.target.closest("button");
      if (!target) return;
      if (target.dataset.preference) { prefer(target.dataset.preference, target.dataset.value); location.reload(); }
      if (target.dataset.themeSwitch !== undefined) {
        const dark = document.documentElement.dataset.theme === "dark" || (document.documentElement.dataset.theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
        document.documentElement.dataset.theme = dark ? "light" : "dark";
        prefer("orihon_theme", document.documentElement.dataset.theme);
        document.dispatchEvent(new Event("themechange"));
      }
      if (target.dataset.keys !== undefined) document.querySelector("[data-keys-dialog]").showModal();
      if (target.dataset.logout !== undefined) { await api("POST", "/logout").catch(() => null); location.assign("/login"); }
    });
  });
  return { api, piece, fragment, element, toast, complain, listen, sparing, times, ago, now, showTip, hideTip, say, prefer };
})();

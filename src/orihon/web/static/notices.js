// Notices as they come, on every page: at most three in the corner, the rest as a number with a link to the feed.
"use strict";
const notices = (() => {
  const MOST = 3;
  const kinds = { warning: "warn", error: "bad", success: "good", info: "" };

  async function undo(task, compression) {
    try {
      const record = await orihon.api("POST", `/api/tasks/${encodeURIComponent(task)}/undo`, { compression });
      orihon.toast(orihon.say("undone", { before: number(record.compression.before_tokens), after: number(record.compression.after_tokens) }));
      document.dispatchEvent(new CustomEvent("orihon:changed", { detail: { task, act: "undo", record } }));
      return true;
    } catch (error) {
      orihon.complain(error);
      return false;
    }
  }
  const number = (value) => Number(value).toLocaleString(document.documentElement.lang);
  const mayChange = () => document.querySelector("meta[name=may-change]")?.content === "yes";

  const shownTask = document.querySelector("main [data-task][data-status-now]")?.dataset.task;
  function show(notice) {
    const actions = [], isHere = notice.task === shownTask;
    if (notice.actions.view_archive) actions.push([orihon.say("view_archive"), () => location.assign(notice.actions.view_archive)]);
    if (notice.actions.undo && mayChange()) actions.push([orihon.say("undo"), () => undo(notice.task, notice.compression)]);
    if (notice.kind === "approval_asked" || notice.kind === "approval_reminded") actions.push([orihon.say("answer"), () => location.assign(`/approvals#${notice.task}`)]);
    else if (notice.task && !actions.length && !isHere) actions.push([orihon.say("open_task"), () => location.assign(`/tasks/${notice.task}`)]);
    orihon.toast(notice.message, { about: isHere ? "" : notice.label, kind: kinds[notice.type] || "", actions, seconds: notice.type === "error" ? 20 : 10 }).dataset.notice = notice.number;
  }

  // What this page has changed itself is said by the page already.
  const own = new Set();
  document.addEventListener("orihon:changed", (event) => {
    const made = event.detail.record?.compression;
    if (made?.kind === "compress") own.add(`${event.detail.task} ${made.id}`);
    const answered = event.detail.record?.checkpoint;
    if (answered) own.add(`${event.detail.task} answer ${answered.id}`);
  });
  const isOwn = (notice) => own.has(`${notice.task} ${notice.compression}`) || (notice.kind === "approval_answered" && own.has(`${notice.task} answer ${notice.checkpoint}`));

  let last = null;
  const look = orihon.sparing(700, async () => {
    const found = await orihon.api("GET", `/api/notices?since=${last}&limit=50`);
    if (!found.notices.length) return;
    last = Math.max(last, found.notices[0].number);
    if (location.pathname === "/notifications") return; // it is the feed itself
    // Who looks at a task sees on its meter that it is full.
    const fresh = found.notices.filter((notice) => !isOwn(notice) && !(notice.kind === "recommended" && notice.task === shownTask));
    const shown = document.querySelectorAll("[data-notice]").length, room = Math.max(0, MOST - shown);
    for (const notice of fresh.slice(0, room).reverse()) show(notice);
    more(fresh.length - Math.min(room, fresh.length));
  });
  // One line for all that has no room.
  function more(count) {
    if (!count) return;
    let line = document.querySelector("[data-more-notices]");
    const total = count + Number(line?.dataset.moreNotices || 0);
    line?.remove();
    line = orihon.toast(orihon.say("more_notices", { n: total }), { seconds: 12, actions: [[orihon.say("see_feed"), () => location.assign("/notifications")]] });
    line.dataset.moreNotices = total;
  }
  document.addEventListener("DOMContentLoaded", () => {
    orihon.listen("/events", (state) => {
      if (last === null || state.notice < last) last = state.notice; // what came before the page was opened is in the feed
      else if (state.notice > last) look();
    });
  });
  return { undo };
})();

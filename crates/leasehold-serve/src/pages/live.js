// Loads the content of the page again when the server reports a change, and counts times in between.
"use strict";

const UNITS = {
  en: ["ms", "s", "min", "h", "d"],
  zh: ["毫秒", "秒", "分", "小时", "天"],
};
const WORDS = {
  en: { on: "live", off: "connection lost, trying again" },
  zh: { on: "实时更新", off: "连接断开，正在重试" },
};
const lang = document.documentElement.lang.startsWith("zh") ? "zh" : "en";
const content = document.getElementById("content");
const state = document.getElementById("live");
let offset = Number(document.body.dataset.now) - Date.now();
let due = false;
let loading = false;

function span(ms) {
  const units = UNITS[lang];
  const s = Math.floor(ms / 1000);
  const two = (big, unit, small) =>
    `${big} ${units[unit]}` + (small ? ` ${small} ${units[unit - 1]}` : "");
  if (s < 1) return `${Math.max(0, Math.floor(ms))} ${units[0]}`;
  if (s < 60) return `${s} ${units[1]}`;
  if (s < 3600) return two(Math.floor(s / 60), 2, s % 60);
  if (s < 86400) return two(Math.floor(s / 3600), 3, Math.floor((s % 3600) / 60));
  return two(Math.floor(s / 86400), 4, Math.floor((s % 86400) / 3600));
}

function tick() {
  const now = Date.now() + offset;
  for (const time of content.querySelectorAll("time[data-since]")) {
    time.textContent = span(now - Number(time.dataset.since));
  }
}

// What a user types, or has selected, stays.
function isBusy() {
  const active = document.activeElement;
  const types = active && content.contains(active) && active.matches("input, textarea");
  return types || !document.getSelection().isCollapsed;
}

// The same for a link or a field of the page before and after it was loaded again.
function control(one) {
  return one.id || `${one.tagName} ${one.getAttribute("href") || one.name || one.textContent}`;
}

async function load() {
  if (loading || document.hidden || isBusy()) return;
  loading = true;
  due = false;
  try {
    const response = await fetch(location.href, { headers: { accept: "text/html" } });
    if (response.redirected) return location.reload();
    const text = await response.text();
    const page = new DOMParser().parseFromString(text, "text/html");
    const fresh = page.getElementById("content");
    if (fresh && !isBusy()) {
      const focused = content.contains(document.activeElement) && control(document.activeElement);
      content.replaceChildren(...fresh.childNodes);
      if (focused) {
        const all = [...content.querySelectorAll("a, button, input, select, textarea")];
        all.find((one) => control(one) === focused)?.focus({ preventScroll: true });
      }
      offset = Number(page.body.dataset.now) - Date.now();
    }
  } catch {
    due = true;
  } finally {
    loading = false;
  }
}

setInterval(tick, 1000);
setInterval(() => due && load(), 300);
// Times that a lease has left change without an event.
setInterval(() => (due = true), 5000);

// A browser opens six connections to a server at most, so a page that is not seen keeps none.
let events = null;
function listen() {
  due = true;
  if (document.hidden) {
    events?.close();
    events = null;
    return;
  }
  if (events) return;
  events = new EventSource(`/v1/events?${document.body.dataset.live}`);
  const changed = () => (due = true);
  events.addEventListener("change", changed);
  events.addEventListener("resync", changed);
  events.addEventListener("hello", () => {
    state.textContent = WORDS[lang].on;
    due = true;
  });
  events.addEventListener("error", () => (state.textContent = WORDS[lang].off));
}
document.addEventListener("visibilitychange", listen);
listen();

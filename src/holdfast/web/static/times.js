// Times that change while the page is open: how long ago something was, how long something has lasted.
const MINUTE = 60_000, HOUR = 60 * MINUTE, DAY = 24 * HOUR;

export function span(ms) {
  const seconds = Math.max(Math.floor(ms / 1000), 0);
  if (seconds < 60) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${String(minutes % 60).padStart(2, "0")} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function ago(ms) {
  for (const [unit, name, least] of [[DAY, "day", 2], [HOUR, "hour", 1], [MINUTE, "minute", 1]]) {
    const count = Math.floor(ms / unit);
    if (count >= least) return `${count.toLocaleString("en")} ${name}${count === 1 ? "" : "s"} ago`;
  }
  return "just now";
}

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function refresh(root = document) {
  const now = Date.now();
  for (const one of root.querySelectorAll("[data-ago]")) set(one, ago(now - Date.parse(one.dateTime)));
  for (const one of root.querySelectorAll("[data-since]")) set(one, span(now - Number(one.dataset.since)));
}

export function tick() {
  refresh();
  setInterval(() => document.hidden || refresh(), 1000);
  document.addEventListener("visibilitychange", () => document.hidden || refresh());
}

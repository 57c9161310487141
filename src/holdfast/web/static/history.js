// History: a search runs while typing or choosing, and more rows load while scrolling.
import { show, turn } from "./live.js";
import { say } from "./actions.js";
import { refresh } from "./times.js";

const PAUSE = 120; // milliseconds without a key before a search
const form = document.getElementById("history-search");
const field = form.elements.q;
const table = document.getElementById("history");
const latest = document.getElementById("history-latest"); // the rows that the server keeps up to date
const end = document.getElementById("history-end");
const atOnce = Number(table.dataset.atOnce);

let more = end.querySelector("a") !== null; // whether there are rows after the last one here
let asked = 0; // number of the last search: answers to earlier ones come too late
let asking = null;
let scrolling = false;
let planned = null;

// ── asking ──────────────────────────────────────────────────────────────────────────────────────────────

function chosen() {
  const words = new URLSearchParams();
  for (const [name, text] of new FormData(form)) if (text.trim()) words.set(name, text.trim());
  return words;
}

const address = (words) => (words.size ? `/history?${words}` : "/history");

async function ask(words, signal) {
  const answer = await fetch(`/history/rows?${words}`, { headers: { Accept: "application/json" }, signal });
  const result = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(result.error.message), { hint: result.error.hint ?? "" });
  return { ...result, version: answer.headers.get("x-holdfast-version") };
}

function fail(error) {
  if (error.name === "AbortError") return;
  const ours = error.hint !== undefined;
  say(ours ? error.message : "The server of this page does not answer.", { bad: true, hint: error.hint ?? "" });
}

// ── searching ───────────────────────────────────────────────────────────────────────────────────────────

async function search({ keep = false } = {}) {
  clearTimeout(planned);
  const words = chosen();
  const where = address(words);
  if (keep && where !== location.pathname + location.search) history.pushState(null, "", where);
  else history.replaceState(null, "", where);
  const mine = ++asked;
  asking?.abort();
  asking = new AbortController();
  table.ariaBusy = "true";
  try {
    const answer = await ask(words, asking.signal);
    if (mine !== asked) return;
    latest.innerHTML = answer.rows;
    for (const one of earlier()) one.remove();
    pushed.takeRecords();
    known = ids();
    more = answer.more;
    scrolling = false;
    show({ put: answer.put });
    turn(where, answer.version);
    if (scrollY > table.offsetTop) table.scrollIntoView();
  } catch (error) {
    if (mine === asked) fail(error);
  } finally {
    if (mine === asked) table.ariaBusy = "false";
  }
}

// ── scrolling ───────────────────────────────────────────────────────────────────────────────────────────

const earlier = () => table.querySelectorAll("tbody:not(#history-latest)");

function last() {
  const bodies = table.tBodies;
  return bodies[bodies.length - 1].lastElementChild;
}

// Rows are grouped by sixty: the browser skips whole groups that are out of sight.
function below() {
  const body = document.createElement("tbody");
  body.setAttribute("role", "rowgroup");
  return body;
}

async function goOn(limit = atOnce) {
  if (scrolling || !more) return;
  const from = last();
  if (from === null) return;
  scrolling = true;
  const mine = asked;
  end.dataset.state = "loading";
  try {
    const words = chosen();
    words.set("before", from.id.slice("row-".length));
    words.set("limit", limit);
    const answer = await ask(words);
    if (mine !== asked) return;
    const body = below();
    body.innerHTML = answer.rows;
    while (body.childElementCount > atOnce) {
      const piece = below();
      piece.append(...Array.from(body.children).slice(0, atOnce));
      table.append(piece);
    }
    if (body.childElementCount) table.append(body);
    refresh(table);
    more = answer.more;
    tally();
    delete end.dataset.state;
    // An element still in sight triggers the observer only when it comes into sight anew.
    watch.unobserve(end);
    watch.observe(end);
  } catch (error) {
    end.dataset.state = "failed";
    if (mine === asked) fail(error);
  } finally {
    if (mine === asked) scrolling = false;
  }
}

const watch = new IntersectionObserver(
  (seen) => seen.some((one) => one.isIntersecting) && end.dataset.state !== "failed" && goOn(),
  { rootMargin: "1500px" },
);

function tally() {
  let shown = 0;
  for (const body of table.tBodies) shown += body.childElementCount;
  const number = shown.toLocaleString("en");
  const text = more ? `${number} shown, more as you scroll` : `${number} session${shown === 1 ? "" : "s"}`;
  const count = document.getElementById("history-count");
  if (shown && count.textContent !== text) count.textContent = text;
  table.hidden = shown === 0;
  end.hidden = !more;
}

// ── what the server puts ────────────────────────────────────────────────────────────────────────────────

const ids = () => new Set(Array.from(latest.children, (one) => one.id));
const rank = (row) => `${row.querySelector("time").dateTime} ${row.id}`;
let known = ids();

// A new session pushes another one out of the first page, to below it. A session that no longer matches is not moved.
const pushed = new MutationObserver((changes) => {
  const removed = changes.flatMap((one) => [...one.removedNodes]).filter((one) => one.id && !one.isConnected);
  const before = known;
  known = ids();
  const bottom = latest.lastElementChild;
  if (bottom === null || latest.childElementCount < atOnce) return tally();
  if (![...known].some((one) => before.has(one))) {
    // So much is new that the rows in between are missing here.
    for (const one of earlier()) one.remove();
    more = true;
    return tally();
  }
  const out = removed.filter((one) => !document.getElementById(one.id) && rank(one) < rank(bottom));
  if (out.length) {
    out.sort((row, other) => (rank(row) < rank(other) ? 1 : -1));
    (earlier()[0] ?? table.appendChild(below())).prepend(...out);
  }
  tally();
});

// ── beginning ───────────────────────────────────────────────────────────────────────────────────────────

form.addEventListener("input", (event) => {
  if (event.target !== field) return;
  clearTimeout(planned);
  planned = setTimeout(search, PAUSE);
});
form.addEventListener("change", (event) => event.target !== field && search({ keep: true }));
form.addEventListener("submit", (event) => {
  event.preventDefault();
  search();
});
field.addEventListener("keydown", (event) => {
  if (event.key !== "ArrowDown") return;
  event.preventDefault();
  latest.firstElementChild?.focus();
});
document.addEventListener("click", (event) => {
  if (event.target.closest("#history-more a")) {
    event.preventDefault();
    delete end.dataset.state;
    goOn();
  } else if (event.target.closest("[data-clear]")) {
    event.preventDefault();
    for (const one of form.querySelectorAll("input, select")) one.value = "";
    search({ keep: true });
    field.focus();
  }
});
document.addEventListener("shown", tally);
addEventListener("popstate", () => {
  const words = new URLSearchParams(location.search);
  for (const one of form.querySelectorAll("input, select")) one.value = words.get(one.name) ?? "";
  search();
});

// Whoever comes back from a session returns to the same place: to the row in the middle of the window.
addEventListener("pagehide", () => {
  const row = document.elementFromPoint(innerWidth / 2, innerHeight / 2)?.closest("tbody tr");
  const left = row && {
    where: location.search, rows: table.querySelectorAll("tbody tr").length, row: row.id, top: row.getBoundingClientRect().top,
  };
  try {
    sessionStorage.setItem("holdfast-history", JSON.stringify(left));
  } catch { /* a browser that keeps nothing: they begin at the top */ }
});
async function comeBack() {
  if (performance.getEntriesByType("navigation")[0]?.type !== "back_forward") return;
  let left = null;
  try {
    left = JSON.parse(sessionStorage.getItem("holdfast-history"));
  } catch { /* as above */ }
  if (left?.where !== location.search || left.rows <= atOnce) return;
  history.scrollRestoration = "manual";
  await goOn(left.rows - atOnce);
  // Twice: the heights of the rows above are known only after they were in sight.
  for (let time = 0; time < 2; time++) {
    const row = document.getElementById(left.row);
    row?.scrollIntoView({ block: "center" });
    if (row) scrollBy(0, row.getBoundingClientRect().top - left.top);
    await new Promise(requestAnimationFrame);
  }
}

pushed.observe(latest, { childList: true });
// A browser that restores typed text knows more than the address.
if (address(chosen()) !== address(new URLSearchParams(location.search)) && !/[?&]before=/.test(location.search)) search();
tally();
comeBack().then(() => watch.observe(end));

// The page of a session: time travel, the event log, and the clocks of its work time.
import { say } from "./actions.js";
import { hold, show } from "./live.js";

const byId = (name) => document.getElementById(name);
const bar = document.querySelector(".travelling");
const slider = byId("moment");
const here = `/session/${bar.dataset.session}`;
const live = "live" in document.body.dataset;

async function asked(address) {
  const answer = await fetch(address, { headers: { Accept: "application/json" } });
  const result = await answer.json();
  if (!answer.ok) throw new Error(result.error.message);
  return result;
}

// ── time travel ──────────────────────────────────────────────────────────────────────────────────────────

let wanted = null; // what to show next, an event's number or a moment: only the latest wish counts
let busy = false;
let returning = false; // to the present, which is on its way

const travel = () => byId("travel").dataset;
const past = () => travel().at !== undefined;
const named = () => new URLSearchParams(location.search).get("at"); // the moment in the address
let there = Number(travel().total); // how many events there were when the present was left, and how many there are
let total = there;

// The slider follows the page.
function settle() {
  if (returning && past()) return;
  returning = false;
  slider.max = travel().total;
  if (wanted === null) slider.value = travel().count;
  slider.disabled = Number(travel().total) < 2;
  slider.setAttribute("aria-valuetext", byId("travel").textContent.trim().replace(/\s+/g, " "));
  bar.classList.toggle("past", past());
  if (!past()) there = Number(travel().total);
  arrived(Number(travel().total));
}

// While the past is shown, new events are only counted.
function arrived(count) {
  total = past() ? Math.max(total, count) : count;
  const text = past() && total > there ? `${(total - there).toLocaleString("en")} new since` : "";
  if (byId("missed").textContent !== text) byId("missed").textContent = text;
}
document.addEventListener("missed", ({ detail }) => {
  if (!detail?.travel) return;
  const made = document.createElement("template");
  made.innerHTML = detail.travel;
  arrived(Number(made.content.firstElementChild.dataset.total));
});

async function go() {
  if (busy) return;
  busy = true;
  while (wanted !== null) {
    const wish = wanted;
    wanted = null;
    returning = false;
    if (wish.n >= Number(travel().total)) {
      now();
      continue;
    }
    hold(true);
    try {
      const result = await asked(`${here}/as-of?${new URLSearchParams({ ...wish, from: travel().count })}`);
      if (returning) continue; // the person has returned meanwhile
      if (result.at === null) {
        now();
        continue;
      }
      byId("earlier").replaceChildren();
      show(result);
      // The browser's back button undoes the first step out of the present.
      const where = `${here}?${new URLSearchParams({ at: result.at })}`;
      if (named() === null) history.pushState({ left: true }, "", where);
      else if (wish.at === undefined) history.replaceState(history.state, "", where);
    } catch (error) {
      say("That moment cannot be shown.", { bad: true, hint: error.message });
      if (live && !past()) hold(false);
    }
  }
  busy = false;
  settle();
}

// Back to the present: what happened meanwhile comes by the stream.
function now() {
  wanted = null;
  if (!live) {
    location.href = here;
    return;
  }
  returning = true;
  if (history.state?.left) history.back();
  else if (named() !== null) history.replaceState(null, "", here);
  byId("earlier").replaceChildren();
  hold(false);
}
addEventListener("popstate", () => {
  const at = named();
  if (at !== null) {
    wanted = { at };
    go();
  } else if (past() && !returning) now();
});

function step(by) {
  wanted = { n: Math.max(Number(slider.value) + by, 1) };
  slider.value = wanted.n;
  go();
}

slider.addEventListener("input", () => {
  wanted = { n: Number(slider.value) };
  go();
});
document.addEventListener("click", (event) => {
  if (!live || !event.target.closest("[data-now]")) return;
  event.preventDefault();
  now();
});
document.addEventListener("keydown", (event) => {
  if (!past() || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("textarea, select, dialog[open], input:not(#moment)")) return;
  if (event.key === "Escape") now();
  else if (event.target !== slider && event.key === "ArrowLeft") step(-1);
  else if (event.target !== slider && event.key === "ArrowRight") step(1);
  else return;
  event.preventDefault();
});

// A hash is short until pointed at.
document.addEventListener("pointerover", ({ target }) => {
  const hash = target.closest?.("button.hash");
  if (hash && !hash.title) hash.title = hash.dataset.copy;
});

// ── the event log ────────────────────────────────────────────────────────────────────────────────────────

const more = byId("more-events");

function remaining() {
  const { left } = byId("events-heading").dataset;
  const count = Number(left) - byId("earlier").childElementCount;
  more.hidden = count <= 0;
  more.textContent = `Show earlier events (${count.toLocaleString("en")} more)`;
}

more.addEventListener("click", async () => {
  const last = byId("earlier").lastElementChild ?? byId("events").lastElementChild;
  const { at } = byId("events-heading").dataset;
  const before = last.querySelector("[data-event]").dataset.event;
  more.disabled = true;
  try {
    const result = await asked(`${here}/events?${new URLSearchParams({ before, until: at ?? "" })}`);
    const made = document.createElement("template");
    made.innerHTML = result.rows.join("");
    byId("earlier").append(made.content);
  } finally {
    more.disabled = false;
    remaining();
  }
});

// Events pushed out of the first hundred go on top of the earlier ones, if those are shown.
new MutationObserver((changes) => {
  if (byId("earlier").childElementCount === 0) return;
  const pushed = changes.flatMap((one) => [...one.removedNodes]).filter((one) => one.id && !one.isConnected);
  byId("earlier").prepend(...pushed);
  remaining();
}).observe(byId("events"), { childList: true });

// A whole event, loaded when it is opened. (`toggle` does not bubble.)
document.addEventListener("toggle", async ({ target }) => {
  if (!target.open || !target.dataset.event || target.querySelector("pre")) return;
  const text = document.createElement("pre");
  target.append(text);
  try {
    text.textContent = (await asked(`${here}/events/${target.dataset.event}`)).text;
  } catch (error) {
    text.textContent = error.message;
  }
}, true);

// ── work time ────────────────────────────────────────────────────────────────────────────────────────────

function exact(seconds) {
  const two = (number) => String(number).padStart(2, "0");
  return `${Math.floor(seconds / 3600).toLocaleString("en")}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
}

// Elapsed is always the sum of the values before it.
function count() {
  const seconds = {};
  for (const clock of document.querySelectorAll("#law [data-kind]")) {
    const { kind, ms, from } = clock.dataset;
    const length = from === undefined ? Number(ms) : Math.max(Date.now() - Number(from), 0);
    seconds[kind] = kind === "elapsed" ? Object.values(seconds).reduce((sum, part) => sum + part, 0) : Math.floor(length / 1000);
    const text = exact(seconds[kind]);
    if (clock.textContent !== text) clock.textContent = text;
  }
}

document.addEventListener("shown", () => {
  settle();
  remaining();
  count();
});
settle();
remaining();
count();
setInterval(() => document.hidden || count(), 1000);

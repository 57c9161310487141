// Changes to this page arrive by one stream of server-sent events for all pages of this browser, which a shared
// worker keeps: a browser opens only a handful of connections to one server. Without shared workers, each page in
// front has its own.
import { refresh } from "./times.js";

let page = document.body.dataset.address;
let version = document.body.dataset.version;
let hello = () => {}; // tells the worker which page this is, and its version
let paused = false;
const waiting = new Map(); // regions the person is busy with, which are put later

export function follow() {
  document.getElementById("pulse").hidden = false;
  if ("SharedWorker" in window) {
    const worker = new SharedWorker("/static/stream.js", { name: "holdfast" });
    worker.port.onmessage = ({ data }) => hear(data);
    hello = () => worker.port.postMessage({ say: "hello", page, version });
    worker.port.start();
    hello();
    addEventListener("pagehide", () => worker.port.postMessage({ say: "bye" }));
    addEventListener("pageshow", (event) => event.persisted && hello());
  } else {
    let stream = null;
    hello = () => {
      stream?.close();
      stream = null;
      if (document.hidden) return;
      stream = new EventSource(`/live?${new URLSearchParams([["page", page], ["version", version]])}`);
      stream.onopen = () => hear({ kind: "open" });
      stream.onerror = () => hear({ kind: "lost" });
      for (const kind of ["news", "failure", "beat"]) {
        stream.addEventListener(kind, (event) => hear({ kind, ...JSON.parse(event.data) }));
      }
    };
    hello();
    document.addEventListener("visibilitychange", hello);
  }
  document.addEventListener("focusout", () => setTimeout(release));
}

// The person turned to another view of this page: from now on that one is followed.
export function turn(address, its) {
  if (address === page) return;
  [page, version] = [address, its];
  waiting.clear();
  hello();
}

// While the person looks at another moment nothing is put; afterwards the whole page is sent.
export function hold(on) {
  if (paused === on) return;
  paused = on;
  waiting.clear();
  if (on) return;
  version = "";
  hello();
}

function hear(message) {
  // Another run of the server: what this page knows of it is invalid, above all the word for changes.
  if (message.version && !message.version.startsWith(`${document.body.dataset.run}-`)) return location.reload();
  if (message.page !== undefined && message.page !== page) return; // of an earlier view
  const pulse = document.getElementById("pulse");
  if (message.kind === "news" && !paused) {
    version = message.version ?? version;
    show(message);
    showFailure(null);
  } else if (message.kind === "news") {
    document.dispatchEvent(new CustomEvent("missed", { detail: message.put }));
  } else if (message.kind === "failure") {
    if (message.gone) leave(message.message);
    else showFailure(message.message);
  }
  const lost = message.kind === "lost" || message.kind === "unknown";
  pulse.dataset.state = lost ? "offline" : "live";
  if (pulse.textContent !== pulse.dataset.state) pulse.textContent = pulse.dataset.state;
  document.getElementById("offline").hidden = message.kind !== "lost";
  document.getElementById("unknown").hidden = message.kind !== "unknown";
}

// What was shown no longer exists, so it must not stay readable.
function leave(why) {
  const notice = document.createElement("div");
  notice.className = "empty";
  notice.append(
    Object.assign(document.createElement("h1"), { textContent: "It is no longer here" }),
    Object.assign(document.createElement("p"), { textContent: why }),
    Object.assign(document.createElement("a"), { textContent: "Back to Now", href: "/now" }),
  );
  document.getElementById("main").replaceChildren(notice);
  document.title = "Holdfast";
}

function showFailure(failure) {
  const banner = document.getElementById("failure");
  banner.hidden = failure === null;
  banner.textContent = failure === null ? "" : `This page cannot be brought up to date: ${failure}`;
}

// Puts regions in their places. `put` contains HTML that the server escaped; nothing in it can run (see the policy).
export function show({ put = {}, lists = {} }) {
  const fresh = new Map();
  for (const [name, html] of Object.entries(put)) {
    const made = document.createElement("template");
    made.innerHTML = html;
    const element = made.content.firstElementChild;
    const old = document.getElementById(name);
    if (old === null) fresh.set(name, element);
    else if (busy(old)) waiting.set(name, element);
    else {
      waiting.delete(name);
      replace(old, element);
    }
  }
  for (const [name, order] of Object.entries(lists)) arrange(document.getElementById(name), order, fresh);
  refresh();
  document.dispatchEvent(new CustomEvent("shown", { detail: Object.keys(put) }));
}

// Whether the person is busy there: writing, in a dialog, or holding it (`data-dragged`) with a finger or the keys.
const BUSY = "input:focus, textarea:focus, select:focus, dialog[open]";
const busy = (region) => region.hasAttribute("data-dragged") || region.querySelector(BUSY) !== null;

function replace(old, element) {
  // What the person opened stays open, and the focus stays.
  const focus = old.contains(document.activeElement) ? document.activeElement : null;
  const same = focus && (focus.id ? `#${CSS.escape(focus.id)}` : key(focus));
  const open = new Set([...old.querySelectorAll("details[open]")].map((one) => one.id));
  for (const one of element.querySelectorAll("details")) if (one.id && open.has(one.id)) one.open = true;
  if (old === focus) element.tabIndex = -1;
  old.replaceWith(element);
  if (old === focus) element.focus({ preventScroll: true });
  else if (same) element.querySelector(same)?.focus({ preventScroll: true });
}

function key(element) {
  for (const name of ["data-key", "data-copy", "data-dialog", "href"]) {
    if (element.hasAttribute(name)) return `[${name}="${CSS.escape(element.getAttribute(name))}"]`;
  }
  return null;
}

function arrange(list, order, fresh) {
  if (list === null) return;
  const wanted = new Set(order);
  for (const child of [...list.children]) if (!wanted.has(child.id)) child.remove();
  let before = list.firstElementChild;
  for (const name of order) {
    const element = document.getElementById(name) ?? fresh.get(name);
    if (!element) continue;
    if (element === before) before = before.nextElementSibling;
    else list.insertBefore(element, before);
  }
}

// Puts what had to wait for the person.
export function release() {
  for (const [name, element] of waiting) {
    const old = document.getElementById(name);
    if (old !== null && busy(old)) continue;
    waiting.delete(name);
    if (old !== null) replace(old, element);
  }
  refresh();
}

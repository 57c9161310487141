// Dots on a hill are moved with the mouse, a finger or the arrow keys. The dot moves at once; the server is asked when
// the person lets go, and a refused dot goes back. Meanwhile nothing changes under the person's hand.
import { release } from "./live.js";
import { send } from "./actions.js";

const KEYS = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 5, PageDown: -5, Home: -10, End: 10 };
const LAST = 10;
const holds = new Map(); // by region, how many moves are not finished
let dragged = null; // the dot being moved: where it was, where it is, and by which pointer

const within = (position) => Math.min(Math.max(position, 0), LAST);
const regionOf = (dot) => dot.closest(".hill-of");

function hold(region, change) {
  const count = (holds.get(region) ?? 0) + change;
  if (count > 0) {
    holds.set(region, count);
    region.dataset.dragged = "";
  } else {
    holds.delete(region);
    delete region.dataset.dragged;
    release();
  }
}

// The same hill as in charts/hill.py.
function place(dot, position) {
  const { left, pitch, base, rise } = dot.ownerSVGElement.dataset;
  const x = Number(left) + position * pitch;
  const y = base - (rise * (1 - Math.cos((2 * Math.PI * position) / LAST))) / 2;
  dot.setAttribute("transform", `translate(${x} ${y})`);
}

function describe(dot, position) {
  const words = dot.ownerSVGElement.dataset.words.split("|")[position];
  dot.setAttribute("aria-valuenow", position);
  dot.setAttribute("aria-valuetext", `${position} of ${LAST}, ${words}`);
  dot.classList.toggle("done", position === LAST);
  const region = regionOf(dot);
  region.querySelector(".where-now").textContent = `${position} of ${LAST}, ${words}`;
  const key = dot.id.slice(dot.id.indexOf("-") + 1);
  const stand = region.querySelector(`[data-stand="${key}"]`);
  if (stand) {
    const number = Object.assign(document.createElement("span"), { className: "number", textContent: `${position}/10` });
    stand.replaceChildren(`${words} `, number);
  }
}

function take(dot, pointer) {
  const from = Number(dot.getAttribute("aria-valuenow"));
  dragged = { dot, pointer, from, at: from, was: dot.getAttribute("transform"), region: regionOf(dot) };
  hold(dragged.region, 1);
  dot.classList.add("dragged");
}

function putBack({ dot, from, was }) {
  dot.setAttribute("transform", was);
  describe(dot, from);
}

async function letGo() {
  const { dot, from, at, region } = dragged;
  const moved = dragged;
  dragged = null;
  dot.classList.remove("dragged");
  if (at === from) {
    putBack(moved);
  } else {
    place(dot, at);
    dot.classList.add("sent");
    const words = new URLSearchParams({ scope: decodeURIComponent(dot.dataset.scope), position: String(at) });
    const done = await send(`/session/${dot.dataset.session}/hill`, words);
    // It stays where it was put until the new drawing arrives: an older one must not take it back.
    if (done) await redrawn(region.id);
    else putBack(moved);
    dot.classList.remove("sent");
  }
  region.querySelector(".where-now").textContent = "";
  hold(region, -1);
}

// Resolves when the region has been redrawn; or soon, if that happened before anybody waited.
function redrawn(name) {
  return new Promise((go) => {
    const onShown = (event) => {
      if (event && !event.detail.includes(name)) return;
      document.removeEventListener("shown", onShown);
      clearTimeout(late);
      go();
    };
    const late = setTimeout(onShown, 1000);
    document.addEventListener("shown", onShown);
  });
}

function giveUp() {
  const moved = dragged;
  dragged = null;
  moved.dot.classList.remove("dragged");
  putBack(moved);
  moved.region.querySelector(".where-now").textContent = "";
  hold(moved.region, -1);
}

const dotOf = (event) => event.target.closest?.(".dot");

document.addEventListener("pointerdown", (event) => {
  const dot = dotOf(event);
  if (!dot || event.button !== 0 || !event.isPrimary) return;
  if (dragged) letGo();
  if (dot.classList.contains("sent")) return;
  event.preventDefault();
  take(dot, event.pointerId);
  dot.focus({ preventScroll: true });
  dot.setPointerCapture(event.pointerId);
});

document.addEventListener("pointermove", (event) => {
  if (dragged?.pointer !== event.pointerId) return;
  const { left, pitch } = dragged.dot.ownerSVGElement.dataset;
  const { x } = new DOMPoint(event.clientX, event.clientY).matrixTransform(dragged.dot.ownerSVGElement.getScreenCTM().inverse());
  const position = within((x - left) / pitch);
  place(dragged.dot, position);
  if (Math.round(position) !== dragged.at) {
    dragged.at = Math.round(position);
    describe(dragged.dot, dragged.at);
  }
});

document.addEventListener("pointerup", (event) => dragged?.pointer === event.pointerId && letGo());
document.addEventListener("pointercancel", (event) => dragged?.pointer === event.pointerId && giveUp());

// A finger on a dot moves the dot, not the page: browsers apply `touch-action` to whole drawings only.
document.addEventListener("touchstart", (event) => dotOf(event) && event.preventDefault(), { passive: false });

document.addEventListener("keydown", (event) => {
  const dot = dotOf(event);
  if (!dot || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key in KEYS) {
    event.preventDefault();
    if (dot.classList.contains("sent")) return;
    if (!dragged) take(dot, null);
    dragged.at = within(dragged.at + KEYS[event.key]);
    place(dot, dragged.at);
    describe(dot, dragged.at);
  } else if (event.key === "Enter" && dragged) {
    event.preventDefault();
    letGo();
  } else if (event.key === "Escape" && dragged) {
    event.preventDefault();
    giveUp();
  }
});
document.addEventListener("focusout", (event) => {
  if (dragged && dragged.pointer === null && dotOf(event) === dragged.dot) letGo();
});
// Whoever sends the form with Enter is done writing, so the result may be drawn. Before the button is disabled.
document.addEventListener(
  "submit",
  (event) => event.target.closest(".adding form")?.querySelector("button").focus(),
  { capture: true },
);

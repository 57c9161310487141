// The focus stays near where it was when its element is removed from the page: an action on a session may remove its
// card. Without this, keyboard users would start again at the top.
let last = null; // what had the focus, and where it was

function remember({ target }) {
  if (target.closest("dialog")) return; // a dialog returns the focus to what opened it
  const around = [];
  for (let one = target; one && one.id !== "main"; one = one.parentElement) {
    const parent = one.parentElement;
    around.push({ one, parent, place: parent ? [...parent.children].indexOf(one) : 0 });
  }
  last = { target, around };
}

const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]";

function take(element) {
  if (!element.matches(FOCUSABLE)) element.tabIndex = -1;
  element.focus({ preventScroll: true });
  element.scrollIntoView({ block: "nearest" });
}

// To the same part of the page as it is now; else to what is in its place; else to the heading.
function recover() {
  if (last === null || last.target.isConnected || document.activeElement !== document.body) return;
  const { around } = last;
  last = null;
  for (const { one, parent, place } of around) {
    const same = one.id && document.getElementById(one.id);
    if (same?.childElementCount) return take(same);
    const siblings = !one.isConnected && parent?.isConnected ? parent.children : [];
    if (siblings.length) return take(siblings[Math.min(place, siblings.length - 1)]);
  }
  take(document.querySelector("#main h1") ?? document.getElementById("main"));
}

export function keep() {
  document.addEventListener("focusin", remember);
  // Pointing elsewhere leaves it; the new target is remembered next, if it takes the focus.
  document.addEventListener("pointerdown", ({ target }) => {
    if (!target.closest("dialog")) last = null;
  });
  document.addEventListener("shown", recover);
  document.addEventListener("close", () => setTimeout(recover), true); // of a dialog; it does not bubble
}

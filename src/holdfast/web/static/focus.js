// The focus stays near where it was when what had it is taken off the page: what is done to a session may take its card
// away with it. Without this, whoever uses the keyboard would begin again at the top.
let last = null; // what had the focus, and where it stood

function remember({ target }) {
  if (target.closest("dialog")) return; // what opened a dialog is come back to
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

// To the same part of the page as it is now; else to what stands in its place; else to the heading.
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
  // Who points at something else has left it; what they point at is remembered next, if it takes the focus.
  document.addEventListener("pointerdown", ({ target }) => {
    if (!target.closest("dialog")) last = null;
  });
  document.addEventListener("shown", recover);
  document.addEventListener("close", () => setTimeout(recover), true); // of a dialog; it does not bubble
}

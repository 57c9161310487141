// Keyboard shortcuts.
const PAGES = ["/now", "/history", "/hours", "/hill", "/devices"];

const busy = (element) => element.closest("input, textarea, select, dialog[open], [contenteditable]") !== null;

function move(step) {
  const items = [...document.querySelectorAll("[data-item]")];
  if (items.length === 0) return;
  const at = items.findIndex((one) => one.contains(document.activeElement));
  const next = items[Math.min(Math.max(at + step, 0), items.length - 1)];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

function search() {
  const field = document.querySelector("[type=search]");
  if (field) field.focus();
  else location.href = "/history";
}

export function listen() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || busy(event.target)) return;
    if ("asking" in document.body.dataset) return event.preventDefault();
    const item = document.activeElement?.closest("[data-item]");
    if (/^[1-5]$/.test(event.key)) location.href = PAGES[Number(event.key) - 1];
    else if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "Enter" && item === document.activeElement) item?.querySelector("[data-open]")?.click();
    else if (event.key === "/") search();
    else if (event.key === "?") document.getElementById("keys").showModal();
    else if (event.key === "p" || event.key === "n") {
      // In a list, for the focused session; on a session's own page, for that one.
      const key = `[data-key="${event.key}"]`;
      const button = item ? item.querySelector(key) : document.querySelector(`${key}:not([data-item] *)`);
      if (!button) return;
      button.click();
    } else return;
    event.preventDefault();
  });
}

// The calendar: pointing at a day, or focusing it, describes it in words; the arrow keys go from day to day.
const STEPS = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: -7, ArrowRight: 7 };
const days = () => [...document.querySelectorAll("#heat-past [data-day], #heat-week [data-day]")];
const dayOf = (event) => event.target.closest?.("[data-day]");

function tell(event) {
  const day = dayOf(event);
  if (day) document.getElementById("heat-text").textContent = day.querySelector("title").textContent;
}

function go(day) {
  for (const one of document.querySelectorAll('.heat [tabindex="0"]')) one.setAttribute("tabindex", "-1");
  day.setAttribute("tabindex", "0");
  day.focus();
}

// The line of the table with the same numbers.
function open(day) {
  const line = document.getElementById(`day-${day.dataset.day}`);
  if (!line) return;
  const month = line.closest("details");
  if (month) month.open = true;
  for (const one of document.querySelectorAll(".there")) one.classList.remove("there");
  line.classList.add("there");
  line.scrollIntoView({ block: "center" });
}

// If not all days fit, the latest are shown first.
function toEnd() {
  const heat = document.querySelector(".heat");
  if (heat && !heat.dataset.seen && heat.querySelector("svg")) {
    heat.dataset.seen = "yes";
    heat.scrollLeft = heat.scrollWidth;
  }
}

document.addEventListener("pointerover", tell);
document.addEventListener("focusin", tell);
document.addEventListener("keydown", (event) => {
  const day = dayOf(event);
  if (!day || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Enter") {
    event.preventDefault();
    open(day);
  } else if (event.key in STEPS || event.key === "Home" || event.key === "End") {
    event.preventDefault();
    const all = days();
    const at = all.indexOf(day) + (STEPS[event.key] ?? 0);
    const next = event.key === "Home" ? all[0] : event.key === "End" ? all.at(-1) : all[at];
    if (next) go(next);
  }
});
document.addEventListener("click", (event) => {
  const day = dayOf(event);
  if (day) open(day);
});
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-choose]")) event.target.form.submit();
});
document.addEventListener("shown", toEnd);
toEnd();

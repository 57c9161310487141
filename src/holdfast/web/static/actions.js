// What a person does on a page: forms are sent without leaving it, and what came of them is said in a corner.
const dialogs = new Map();

export function say(text, { bad = false, hint = "" } = {}) {
  const toast = document.createElement("div");
  toast.className = bad ? "toast bad" : "toast";
  toast.append(Object.assign(document.createElement("p"), { textContent: text }));
  if (hint) toast.append(Object.assign(document.createElement("p"), { textContent: hint, className: "hint" }));
  document.getElementById("toasts").append(toast);
  setTimeout(() => toast.remove(), bad ? 12_000 : 5_000);
}

// Sends a change to the server; says whether it was made.
export async function send(address, words) {
  try {
    const answer = await fetch(address, {
      method: "POST",
      headers: { Accept: "application/json", "X-Holdfast-Word": document.body.dataset.word },
      body: words,
    });
    const told = await answer.json();
    if (answer.ok) say(told.said);
    else say(told.error.message, { bad: true, hint: told.error.hint ?? "" });
    return answer.ok;
  } catch {
    say("The server of this page does not answer; nothing was changed.", { bad: true });
    return false;
  }
}

async function submitted(event) {
  const form = event.target.closest("form[data-action]");
  if (!form) return;
  event.preventDefault();
  const question = form.dataset.confirm;
  if (question && !confirm(question)) return;
  const words = new URLSearchParams(new FormData(form, event.submitter));
  const buttons = form.querySelectorAll("button");
  for (const button of buttons) button.disabled = true;
  const done = await send(form.action, words);
  for (const button of buttons) button.disabled = false;
  if (!done) return;
  form.reset();
  form.closest("dialog")?.close();
}

// Dialogs are asked for when they are first needed.
async function ask(name, session) {
  const address = `/session/${session}/dialog/${name}`;
  const answer = await fetch(address, { headers: { Accept: "text/html" } });
  if (!answer.ok) return say("That cannot be done now.", { bad: true });
  const made = document.createElement("template");
  made.innerHTML = await answer.text();
  const dialog = made.content.firstElementChild;
  dialogs.get(name)?.remove();
  dialogs.set(name, dialog);
  document.body.append(dialog);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.showModal();
}

async function copy(button) {
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    say("Copied. Paste it into a terminal.");
  } catch {
    prompt("Copy this:", button.dataset.copy);
  }
}

export function act() {
  document.addEventListener("submit", submitted);
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy], [data-dialog], [data-close]");
    if (!button) return;
    if (button.dataset.copy !== undefined) copy(button);
    else if (button.dataset.dialog) ask(button.dataset.dialog, button.dataset.session);
    else button.closest("dialog").close();
  });
}

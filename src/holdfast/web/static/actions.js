// Actions: forms are sent without leaving the page, and their results appear in a corner.

const make = (name, words, ...inside) => {
  const element = Object.assign(document.createElement(name), words);
  element.append(...inside);
  return element;
};

// Shows a message in a corner. One with something to copy stays until it is closed, and so does one that `stays`.
export function say(text, { bad = false, hint = "", more = [], command = null, stays = false } = {}) {
  const toast = make("div", { className: bad ? "toast bad" : "toast" }, make("p", { textContent: text }));
  const buttons = make("menu", {});
  if (command) {
    toast.append(make("p", {}, make("code", { textContent: command })));
    buttons.append(make("button", { type: "button", textContent: "Copy" }));
    buttons.firstChild.dataset.copy = command;
  }
  for (const line of [...more, ...hint.split("\n")].filter(Boolean)) {
    toast.append(make("p", { textContent: line, className: "hint" }));
  }
  buttons.append(make("button", { type: "button", className: "quiet", textContent: "Close", onclick: () => toast.remove() }));
  toast.append(buttons);
  document.getElementById("toasts").append(toast);
  if (!command && !stays) setTimeout(() => toast.remove(), bad || more.length ? 15_000 : 5_000);
  return toast;
}

// Another program may be writing: after two seconds a message says so, in the dialog if one is open, until the answer comes.
function noticeWhenSlow(address, form) {
  let notice = null;
  const clock = setTimeout(() => {
    const text = /\/(sync|share)$/.test(new URL(address, location.href).pathname)
      ? "Still running…" : "Waiting for the store: another program is writing…";
    if (form?.closest("dialog")) {
      notice = make("p", { className: "hint waits", role: "status", textContent: text });
      (form.querySelector("menu") ?? form.lastElementChild).before(notice);
    } else notice = say(text, { stays: true });
  }, 2_000);
  return () => {
    clearTimeout(clock);
    notice?.remove();
  };
}

async function post(address, words, form = null) {
  const done = noticeWhenSlow(address, form);
  try {
    const answer = await fetch(address, {
      method: "POST",
      headers: { Accept: "application/json", "X-Holdfast-Word": document.body.dataset.word },
      body: words,
    });
    return { ok: answer.ok, ...(await answer.json()) };
  } catch {
    return { ok: false, error: { message: "The server of this page does not answer; nothing was changed." } };
  } finally {
    done();
  }
}

const showResult = (result) => say(result.said, { more: result.more ?? [], command: result.copy });
const showError = ({ error }) => say(error.message, { bad: true, hint: error.hint ?? "" });

// Sends a change to the server and shows the result; returns whether it was made.
export async function send(address, words) {
  const result = await post(address, words);
  if (result.ok) showResult(result);
  else showError(result);
  return result.ok;
}

async function submitted(event) {
  const form = event.target.closest("form[data-action]");
  if (!form) return;
  event.preventDefault();
  const question = form.querySelector("[data-confirm]:checked")?.dataset.confirm ?? form.dataset.confirm;
  if (question && !confirm(question)) return;
  const words = new URLSearchParams(new FormData(form, event.submitter));
  const buttons = form.querySelectorAll("button");
  for (const button of buttons) button.disabled = true;
  const result = await post(form.action, words, form);
  for (const button of buttons) button.disabled = false;
  if (event.submitter?.isConnected && document.activeElement === document.body) event.submitter.focus();
  const dialog = form.closest("dialog");
  if (result.ok) {
    form.reset();
    dialog?.close();
    showResult(result);
  } else if (result.dialog) {
    // A refusal may name a dialog that shows how to go on.
    await ask(result.dialog, form.action.split("/session/")[1].split("/")[0]);
  } else if (dialog) {
    showErrorIn(form, result.error);
  } else showError(result);
}

// The page behind an open dialog cannot be read, so the dialog shows its own error.
function showErrorIn(form, error) {
  form.querySelector(".failure")?.remove();
  const hints = (error.hint ?? "").split("\n").filter(Boolean);
  const box = make("div", { className: "failure", role: "alert" }, make("p", { textContent: error.message }),
    ...hints.map((line) => make("p", { textContent: line, className: "hint" })));
  form.querySelector("menu").before(box);
}

// Dialogs are loaded when they are needed, so that they show the present. When one closes, the focus returns to
// what opened it, or to the same button if the page was updated meanwhile.
async function ask(name, session) {
  // Until it is open, keys are meant for it and may do nothing else.
  document.body.dataset.asking = "";
  try {
    await open(name, session);
  } finally {
    delete document.body.dataset.asking;
  }
}

async function open(name, session) {
  const opener = document.activeElement;
  const same = `[data-dialog="${CSS.escape(name)}"][data-session="${CSS.escape(session)}"]`;
  const answer = await fetch(`/session/${session}/dialog/${name}?piece`, { headers: { Accept: "text/html, application/json" } });
  if (!answer.ok) {
    const result = await answer.json();
    return say(result.error.message, { bad: true, hint: result.error.hint ?? "" });
  }
  const made = document.createElement("template");
  made.innerHTML = await answer.text();
  const dialog = made.content.firstElementChild;
  for (const other of document.querySelectorAll("body > dialog[data-asked][open]")) other.close();
  dialog.dataset.asked = "";
  document.body.append(dialog);
  dialog.addEventListener("close", () => {
    dialog.remove();
    const back = opener?.isConnected ? opener : document.querySelector(same);
    const menu = back?.closest("details:not([open])") ?? (back ? null : document.getElementById(`more-${session}`));
    (menu?.querySelector("summary") ?? back)?.focus();
  });
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

// Menus close when something else is done, and with Escape.
function shut(except) {
  for (const menu of document.querySelectorAll("details.more[open]")) if (!menu.contains(except)) menu.open = false;
}

export function act() {
  document.addEventListener("submit", submitted);
  document.addEventListener("click", (event) => {
    shut(event.target);
    const button = event.target.closest("[data-copy], [data-dialog], [data-close], .menu a");
    if (!button) return;
    if (button.dataset.copy !== undefined) copy(button);
    else if (button.dataset.dialog) {
      event.preventDefault(); // the form around it is for browsers without scripts
      ask(button.dataset.dialog, button.dataset.session).catch(() =>
        say("The server of this page does not answer.", { bad: true }));
    } else button.closest("dialog")?.close();
    const menu = button.closest("details.more");
    if (menu) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && document.activeElement?.closest("details.more[open]");
    if (!menu) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
}

// The shared worker: one stream for all pages of this browser.
"use strict";
const pages = new Map(); // by port: the page's address, and the version it has
const SILENCE = 25_000; // milliseconds of silence after which the server counts as dead
let stream = null, planned = null, open = false, lastSign = 0;

function tell(message) {
  for (const port of pages.keys()) port.postMessage(message);
}

function plan() {
  clearTimeout(planned);
  planned = setTimeout(connect, 20);
}

function connect() {
  stream?.close();
  stream = null;
  open = false;
  if (pages.size === 0) return;
  const words = new URLSearchParams();
  const oldest = new Map();
  for (const { page, version } of pages.values()) {
    // Two tabs have different versions of one page: the whole page is sent.
    oldest.set(page, oldest.has(page) && oldest.get(page) !== version ? "" : version);
  }
  for (const [page, version] of oldest) {
    words.append("page", page);
    words.append("version", version);
  }
  stream = new EventSource(`/live?${words}`);
  lastSign = Date.now();
  stream.onopen = () => {
    open = true;
    lastSign = Date.now();
    tell({ kind: "open" });
  };
  stream.onerror = again;
  stream.addEventListener("beat", () => {
    lastSign = Date.now();
  });
  for (const kind of ["news", "failure"]) {
    stream.addEventListener(kind, (event) => {
      lastSign = Date.now();
      const data = JSON.parse(event.data);
      for (const [port, has] of pages) {
        if (has.page !== data.page) continue;
        if (data.version) has.version = data.version;
        port.postMessage({ kind, ...data });
      }
    });
  }
}

// What was sent meanwhile is lost: start again from the versions the pages have.
async function again() {
  open = false;
  stream?.close();
  stream = null;
  clearTimeout(planned);
  planned = setTimeout(connect, 1000);
  tell({ kind: (await knowsUs()) ? "lost" : "unknown" });
}

// Whether a server that answers would let us in: a restarted one does not.
async function knowsUs() {
  try {
    return (await fetch("/now", { method: "HEAD", signal: AbortSignal.timeout(3000) })).status !== 401;
  } catch {
    return true; // no answer at all
  }
}

setInterval(() => {
  if (stream && Date.now() - lastSign > SILENCE) again();
}, 5000);

self.onconnect = ({ ports: [port] }) => {
  port.onmessage = ({ data }) => {
    if (data.say === "hello") {
      const known = [...pages.values()].some((one) => one.page === data.page && one.version === data.version);
      pages.set(port, { page: data.page, version: data.version });
      if (data.version && known && open) port.postMessage({ kind: "open" });
      else plan();
    } else if (data.say === "bye") {
      const closed = pages.get(port);
      pages.delete(port);
      if (closed && ![...pages.values()].some((one) => one.page === closed.page)) plan();
    }
  };
  port.start();
};

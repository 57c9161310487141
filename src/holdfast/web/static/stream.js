// The shared worker: one stream for all pages of this browser.
"use strict";
const pages = new Map(); // by port: the page's address, and the version it has
let stream = null, planned = null, open = false;

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
    // Two tabs with one page that have not the same version: it is sent whole.
    oldest.set(page, oldest.has(page) && oldest.get(page) !== version ? "" : version);
  }
  for (const [page, version] of oldest) {
    words.append("page", page);
    words.append("version", version);
  }
  stream = new EventSource(`/live?${words}`);
  stream.onopen = () => {
    open = true;
    for (const port of pages.keys()) port.postMessage({ kind: "open" });
  };
  stream.onerror = () => {
    open = false;
    for (const port of pages.keys()) port.postMessage({ kind: "lost" });
    // What was sent meanwhile is not known any more: begin anew, from the versions that the pages have.
    stream.close();
    clearTimeout(planned);
    planned = setTimeout(connect, 1000);
  };
  for (const kind of ["news", "trouble"]) {
    stream.addEventListener(kind, (event) => {
      const data = JSON.parse(event.data);
      for (const [port, has] of pages) {
        if (has.page !== data.page) continue;
        if (data.version) has.version = data.version;
        port.postMessage({ kind, ...data });
      }
    });
  }
}

self.onconnect = ({ ports: [port] }) => {
  port.onmessage = ({ data }) => {
    if (data.say === "hello") {
      const known = [...pages.values()].some((one) => one.page === data.page && one.version === data.version);
      pages.set(port, { page: data.page, version: data.version });
      if (known && open) port.postMessage({ kind: "open" });
      else plan();
    } else if (data.say === "bye") {
      const gone = pages.get(port);
      pages.delete(port);
      if (gone && ![...pages.values()].some((one) => one.page === gone.page)) plan();
    }
  };
  port.start();
};

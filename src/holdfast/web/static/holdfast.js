// What every page does. Each part is a module of its own.
import { follow } from "./live.js";
import { act } from "./actions.js";
import { tick } from "./times.js";
import { listen } from "./keys.js";
import { choose } from "./choosing.js";
import { keep } from "./focus.js";

choose();
tick();
act();
listen();
keep();
if ("live" in document.body.dataset) follow();
else document.getElementById("pulse").hidden = true;

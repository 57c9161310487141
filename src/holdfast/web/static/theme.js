// Before anything is drawn: the person's choice of light or dark, if it differs from the system's.
"use strict";
try {
  const chosen = localStorage.getItem("holdfast-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch { /* a browser that keeps nothing: the system's choice stands */ }

// Devices: while a sync started here is running, its button says so.
document.addEventListener("submit", (event) => {
  if (event.target.id !== "devices-sync") return;
  const button = event.target.querySelector("button");
  const label = button.textContent;
  button.textContent = "Syncing…";
  // The button can be used again once the server has answered (see actions.js).
  const over = new MutationObserver(() => {
    if (button.disabled) return;
    button.textContent = label;
    over.disconnect();
  });
  over.observe(button, { attributeFilter: ["disabled"] });
});

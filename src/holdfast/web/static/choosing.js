// Light or dark, as the person chooses.
export function choose() {
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try {
      localStorage.setItem("holdfast-theme", root.dataset.theme);
    } catch { /* then it holds until the page is left */ }
  });
}

// Runs before the first paint: marks that scripts run, and applies the chosen theme, or else the
// system's.
document.documentElement.classList.add("live");
try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Without storage there is no choice.
}

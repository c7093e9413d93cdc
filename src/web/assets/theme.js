// Before anything is drawn: that scripts run, and the theme that was chosen here. Without one, the system's.
document.documentElement.classList.add("live");
try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // No storage, no choice.
}

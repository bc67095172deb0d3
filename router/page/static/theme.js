// Runs before the first paint, so that a remembered theme does not flash. Everything else is in app.js.
{
  const chosen = localStorage.getItem("tandem.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}

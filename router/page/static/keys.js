// The keyboard: one table of keys, which is also what `?` lists.

export const KEYS = [
  ["j  ↓", "next row"],
  ["k  ↑", "previous row"],
  ["Enter", "open the row"],
  ["/", "filter the list"],
  ["Esc", "leave the filter, close this list, go back"],
  ["p", "pause or resume the list"],
  ["1 – 6", "go to a view, in the order of the menu"],
  ["t", "switch between light and dark"],
  ["?", "show these keys"],
];

const isTyping = (element) => element?.matches?.("input, textarea, select");

function moveFocus(step) {
  const rows = [...document.querySelectorAll("main [data-row-link]")];
  if (!rows.length) return false;
  const at = rows.indexOf(document.activeElement);
  const next = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + step))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
  return true;
}

/** Call what belongs to each key. `actions`: showKeys, hideKeys (returns whether they were shown), theme, view, pause. */
export function listenToKeys(actions) {
  const press = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const filter = document.querySelector("[data-filter]");
    if (event.key === "Escape") {
      if (actions.hideKeys()) return event.preventDefault();
      if (isTyping(event.target)) return event.target.blur();
      if (/^#\/(turn|session)\//.test(location.hash)) history.back();
      return undefined;
    }
    if (isTyping(event.target)) {
      if (event.target === filter && event.key === "ArrowDown" && moveFocus(1)) event.preventDefault();
      return undefined;
    }
    if (event.key === "/" && filter) filter.focus();
    else if ((event.key === "j" || event.key === "ArrowDown") && moveFocus(1)) void 0;
    else if ((event.key === "k" || event.key === "ArrowUp") && moveFocus(-1)) void 0;
    else if (event.key === "?") actions.showKeys();
    else if (event.key === "t") actions.theme();
    else if (event.key === "p") actions.pause();
    else if (/^[1-6]$/.test(event.key)) actions.view(Number(event.key) - 1);
    else return undefined;
    return event.preventDefault();
  };
  document.addEventListener("keydown", press);
  return () => document.removeEventListener("keydown", press);
}

// A session as a strip: one block for each call, in its tier's colour, with hops and interrupts.

import { html } from "./vendor/htm-preact.js";
import { link } from "./parts.js";
import * as words from "./words.js";

const STOPPED = new Set(["INTERRUPTED", "SUPERSEDED", "ABANDONED"]);

const sentence = (row) =>
  [
    words.time(row.at),
    row.tier ?? "no tier",
    words.kind(row.turn_kind),
    words.milliseconds(row.duration_ms),
    words.cost(row),
    row.trouble,
    row.hop ? `moved ${row.hop}` : "",
  ]
    .filter(Boolean)
    .join(", ");

/** Wider blocks took longer; the root keeps a long call from hiding the others. */
const grow = (row) => ({ flexGrow: Math.max(1, Math.sqrt((row.duration_ms ?? 0) / 100)).toFixed(2) });

/** A long strip scrolls sideways: begin at the call that is marked. */
const show = (cell) =>
  cell && requestAnimationFrame(() => cell.parentElement?.parentElement?.scrollTo({ left: cell.offsetLeft - 160 }));

export const Strip = ({ rows, marked = null }) => html`
  <ol class="strip-of-calls" data-strip aria-label="Calls of the session, oldest first">
    ${rows.map(
      (row) => html`<li key=${row.id} style=${grow(row)} data-block=${row.id} class=${row.hop ? "hops" : ""}>
        <a
          href=${link("turn", row.id)} title=${sentence(row)} aria-label=${sentence(row)} aria-current=${row.id === marked ? "true" : undefined} ref=${row.id === marked ? show : undefined}
          class=${`cell ${row.tier ?? "none"} ${row.turn_kind ?? ""}`}
        >${row.hop === "up" ? "↑" : row.hop === "down" ? "↓" : ""}${STOPPED.has(row.outcome) ? html`<span data-interrupt>×</span>` : null}</a>
      </li>`,
    )}
  </ol>`;

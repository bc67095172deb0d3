// What all views are about: one time range, and the names that were clicked. Both are in the address.

import { html } from "./vendor/htm-preact.js";
import { now } from "./store.js";
import * as words from "./words.js";

export const RANGES = { "1h": ["1 hour", 3600], "24h": ["24 hours", 86400], "7d": ["7 days", 604800], "30d": ["30 days", 2592000] };
const USUAL = "24h";
const NAMES = ["caller", "client", "target", "tier", "outcome"];
const KEPT = ["range", "from", "until", ...NAMES];

/** The scope of an address: `{range, from, until, caller, client, target, tier}`. */
export function readScope(query) {
  const scope = Object.fromEntries(KEPT.map((name) => [name, query.get(name) ?? ""]));
  return { ...scope, range: scope.range in RANGES ? scope.range : USUAL };
}

const isUsual = (name, value) => !value || (name === "range" && value === USUAL);

/** The address of a view with this scope, and what else the view keeps there. */
export function addressOf(view, scope, more = {}) {
  const query = new URLSearchParams(Object.entries({ ...scope, ...more }).filter(([name, value]) => !isUsual(name, value)));
  return `#/${view}${String(query) && `?${query}`}`;
}

/** What a route of the ledger is asked with. Moments are in seconds ago, which needs no common clock. */
export function queryOf(scope, more = {}) {
  const ago = (at) => Math.max(0, now() - Number(at)).toFixed(0);
  const since = scope.from ? ago(scope.from) : RANGES[scope.range][1];
  const query = new URLSearchParams({ since, ...(scope.until && { until: ago(scope.until) }) });
  for (const [name, value] of [...NAMES.map((name) => [name, scope[name]]), ...Object.entries(more)]) if (value) query.set(name, value);
  return query;
}

/** A name that filters by itself when it is clicked. */
export const Name = ({ view, scope, of, value, children }) =>
  value
    ? html`<a class="name" data-by=${of} href=${addressOf(view, scope, { [of]: value })} title=${`only ${value}`}>${children ?? value}</a>`
    : html`<span class="muted">unknown</span>`;

const LABELS = { caller: "person", client: "client", target: "target", tier: "tier", outcome: "outcome" };

/** The range, and what is filtered by, each with a way out. */
export const ScopeBar = ({ view, scope }) => html`
  <nav class="choice" aria-label="Time range">
    ${Object.entries(RANGES).map(
      ([range, [label]]) =>
        html`<a key=${range} data-choice=${range} href=${addressOf(view, { ...scope, range, from: "", until: "" })} aria-current=${range === scope.range && !scope.from ? "true" : undefined}>${label}</a>`,
    )}
  </nav>
  ${scope.from && html`<${Chip} of="from" href=${addressOf(view, { ...scope, from: "", until: "" })}>${words.span(Number(scope.from), Number(scope.until))}<//>`}
  ${NAMES.filter((name) => scope[name]).map((name) => html`<${Chip} key=${name} of=${name} href=${addressOf(view, { ...scope, [name]: "" })}>${LABELS[name]} <b>${name === "outcome" ? scope[name].toLowerCase().replaceAll("_", " ") : scope[name]}</b><//>`)}`;

const Chip = ({ of, href, children }) => html`<a class="chip" data-chip=${of} href=${href} title="show all again"><span>${children}</span> <span aria-hidden="true">×</span><span class="unseen">, remove this filter</span></a>`;

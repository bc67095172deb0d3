// Callers: what each has spent of its budget and uses of its limits. For admins.

import { html } from "../vendor/htm-preact.js";
import { Answered, Table } from "../parts.js";
import { useAnswer } from "../store.js";
import * as words from "../words.js";

const STATS_MS = 5000;
const LIMITS = { requests_per_minute: "requests a minute", tokens_per_minute: "tokens a minute", in_flight: "at once" };

const Meter = ({ used, limit, label, text }) => {
  const share = limit > 0 ? Math.min(1, used / limit) : 1;
  return html`
    <div class="meter"><span class="number">${text}</span>
      <span class="track" role="img" aria-label=${`${label}: ${words.percent(share)} used`}><span class=${`fill ${share >= 1 ? "spent" : share >= 0.8 ? "near" : ""}`} style=${{ width: `${(share * 100).toFixed(1)}%` }}></span></span>
    </div>`;
};

function Budget({ period, budget }) {
  if (!budget) return html`<td class="muted">no budget</td>`;
  const held = budget.held_usd > 0 ? `, ${words.usd(budget.held_usd)} held for running calls` : "";
  return html`
    <td data-budget=${period}>
      <${Meter} used=${budget.spent_usd} limit=${budget.limit_usd} label=${`budget of the ${period}`} text=${`${words.usd(budget.spent_usd)} of ${words.usd(budget.limit_usd)}`} />
      <span class="muted small-text">${words.usd(budget.left_usd)} left${held}, until ${new Date(budget.resets_at).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" })}</span>
    </td>`;
}

const Caller = ({ name, caller }) => html`
  <tr data-caller=${name}>
    <td><b>${name}</b></td>
    <td class="number">${caller.in_flight}</td>
    <${Budget} period="day" budget=${caller.budget?.day} />
    <${Budget} period="month" budget=${caller.budget?.month} />
    <td>${Object.entries(caller.limits ?? {}).map(([limit, { used, limit: most }]) => html`<${Meter} used=${used} limit=${most} label=${LIMITS[limit] ?? limit} text=${`${words.count(used)} of ${words.count(most)} ${LIMITS[limit] ?? limit}`} />`)}
      ${!Object.keys(caller.limits ?? {}).length && html`<span class="muted">no limits</span>`}</td>
  </tr>`;

const HEAD = [["Caller"], ["Running", "number"], ["Today"], ["This month"], ["Limits"]];

function List({ stats }) {
  const callers = Object.entries(stats.callers ?? {});
  if (callers.length) return html`<${Table} label="Callers" head=${HEAD}>${callers.map(([name, caller]) => html`<${Caller} key=${name} name=${name} caller=${caller} />`)}<//>`;
  return html`<p class="empty" data-empty>${stats.rights ? "Only a key with the right admin shows all callers." : html`There are no keys, so there is one caller. <code>tandem keys add NAME</code> makes a key.`}</p>`;
}

export default function Callers() {
  const answer = useAnswer("/tandem/stats", { everyMs: STATS_MS });
  return html`
    <section data-view="callers">
      <h1>Callers</h1>
      <${Answered} answer=${answer} what="callers">${(stats) => html`<${List} stats=${stats} />`}<//>
    </section>`;
}

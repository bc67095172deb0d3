// Callers: what each has spent, has left of its budget, and uses of its limits. For admins.

import { html } from "../vendor/htm-preact.js";
import { Answered, Budgets, Meter, numbers, Table } from "../parts.js";
import { addressOf, queryOf, RANGES, readScope, ScopeBar } from "../scope.js";
import { useAnswer } from "../store.js";
import * as words from "../words.js";

const STATS_MS = 5000;
const SAVINGS_MS = 30000;
const LIMITS = { requests_per_minute: "requests a minute", tokens_per_minute: "tokens a minute", in_flight: "at once" };

const Caller = ({ name, caller, worth, scope }) => html`
  <tr data-caller=${name}>
    <td><a href=${addressOf("today", scope, { caller: name })} title=${`only ${name}`}><b>${name}</b></a></td>
    ${numbers(caller.in_flight, words.usd(worth?.spent.usd ?? 0), html`<a href=${addressOf("turns", scope, { caller: name })}>${words.whole(worth?.turns ?? 0)}</a>`, words.percent(worth?.turns ? worth.fast_turns / worth.turns : null))}
    <td>${Object.keys(caller.budget ?? {}).length ? html`<${Budgets} budget=${caller.budget} />` : html`<span class="muted">no budget</span>`}</td>
    <td>${Object.entries(caller.limits ?? {}).map(([limit, { used, limit: most }]) => html`<${Meter} used=${used} limit=${most} label=${LIMITS[limit] ?? limit} text=${`${words.count(used)} of ${words.count(most)} ${LIMITS[limit] ?? limit}`} />`)}
      ${!Object.keys(caller.limits ?? {}).length && html`<span class="muted">no limits</span>`}</td>
  </tr>`;

const head = (range) => [["Person"], ["Running", "number"], [`Spent, ${range}`, "number"], ["Turns", "number"], ["On fast", "number"], ["Budget"], ["Limits"]];

function List({ stats, scope }) {
  const { value } = useAnswer(`/tandem/savings?${queryOf(scope, { since: scope.range })}`, { everyMs: SAVINGS_MS });
  const callers = Object.entries(stats.callers ?? {});
  if (callers.length) return html`<${Table} label="Callers" head=${head(RANGES[scope.range][0])}>${callers.map(([name, caller]) => html`<${Caller} key=${name} name=${name} caller=${caller} worth=${value?.by_caller[name]} scope=${scope} />`)}<//>`;
  return html`<p class="empty" data-empty>${stats.rights ? "Only a key with the right admin shows all callers." : html`There are no keys, so there is one caller. <code>tandem keys add NAME</code> makes a key.`}</p>`;
}

export default function Callers({ query }) {
  const scope = { ...readScope(query), from: "", until: "", caller: "", client: "", target: "", tier: "", outcome: "" };
  const answer = useAnswer("/tandem/stats", { everyMs: STATS_MS });
  return html`
    <section data-view="callers">
      <div class="tools"><h1>Callers</h1><${ScopeBar} view="callers" scope=${scope} /></div>
      <${Answered} answer=${answer} what="callers">${(stats) => html`<${List} stats=${stats} scope=${scope} />`}<//>
    </section>`;
}

// Today: what was spent and saved, by day, person, target and client. Every name and every bar leads on.

import { html } from "../vendor/htm-preact.js";
import { Answered, Block, Budgets, numbers, Table } from "../parts.js";
import { addressOf, Name, queryOf, readScope, ScopeBar } from "../scope.js";
import { seesCallers, useAnswer } from "../store.js";
import * as words from "../words.js";

const SAVINGS_MS = 15000;
const DAYS_MS = 60000;
const DAYS = { "7d": 7, "30d": 30 };

const Card = ({ name, label, value, href, children }) => html`
  <article class="figure" data-card=${name}>
    <h2>${label}</h2>
    <p class="value number">${href ? html`<a href=${href}>${value}</a>` : value}</p>
    <p class="muted">${children}</p>
  </article>`;

const Cards = ({ worth, scope }) => {
  const { spent, saved, redone, left_out: leftOut } = worth;
  return html`
    <div class="figures cards">
      <${Card} name="spent" label="Spent" value=${words.usd(spent.usd)} href=${addressOf("turns", scope)}>${words.many(worth.turns, "turn")}, ${words.seconds(spent.seconds)} of work${leftOut.unpriced ? `; ${words.many(leftOut.unpriced, "call")} without a price left out` : ""}${worth.list_usd > 0 ? `; plans paid for what is ${words.worth(worth.list_usd)}` : ""}<//>
      <${Card} name="saved" label="Saved" value=${words.usd(saved.usd)} href=${addressOf("savings", scope)}>${worth.sentence}<//>
      <${Card} name="fast" label="On fast" value=${words.percent(worth.turns ? worth.fast_turns / worth.turns : null)} href=${addressOf("turns", scope, { tier: "fast" })}>${words.whole(worth.fast_turns)} of ${words.many(worth.turns, "turn")}<//>
      <${Card} name="redone" label="Redone" value=${words.whole(redone.turns)} href=${addressOf("savings", scope)}>${redone.turns ? `fast had worked on them for ${words.seconds(redone.seconds)}` : "marked, moved up or asked again"}<//>
      <${Card} name="errors" label="Errors" value=${words.whole(worth.failed)} href=${addressOf("turns", scope, { outcome: "FAILED" })}>failed${leftOut.refused > 0 && html`, and <a href=${addressOf("turns", scope, { outcome: "REFUSED" })}>${words.whole(leftOut.refused)} refused</a>`}<//>
    </div>`;
};

const startOf = (day) => new Date(`${day}T00:00`).getTime() / 1000;

/** The last days up to today, by their local dates. */
function daysOf(count) {
  const today = new Date();
  return Array.from({ length: count }, (_, index) => {
    const day = new Date(today.getFullYear(), today.getMonth(), today.getDate() - (count - 1 - index));
    return `${day.getFullYear()}-${String(day.getMonth() + 1).padStart(2, "0")}-${String(day.getDate()).padStart(2, "0")}`;
  });
}

/** One bar for each day: the height is `of`, and it leads to the turns of that day. */
function Bars({ name, title, days, byDay, of, format, scope }) {
  const values = days.map((day) => (byDay[day] ? of(byDay[day]) ?? 0 : 0));
  const most = Math.max(...values, Number.MIN_VALUE);
  return html`
    <figure class="plot" data-bars=${name}>
      <figcaption>${title} <span class="muted">${format(values.reduce((sum, value) => sum + value, 0))} in ${days.length} days</span></figcaption>
      <ol class="bars">${days.map((day, index) => {
        const from = startOf(day);
        const label = `${words.span(from, from + 86400)}: ${format(values[index])}`;
        return html`<li key=${day}><a href=${addressOf("turns", { ...scope, from: String(from), until: String(from + 86400) })} title=${label} aria-label=${label} data-bar=${day}>
          <span class="bar-of-day" style=${{ height: `${((values[index] / most) * 100).toFixed(1)}%` }}></span></a></li>`;
      })}</ol>
      <p class="ends muted small-text"><span>${words.span(startOf(days[0]), startOf(days[0]) + 86400)}</span><span>most in a day ${format(Math.max(...values))}</span><span>today</span></p>
    </figure>`;
}

const ROWS = [["Name"], ["Spent", "number"], ["Turns", "number"], ["On fast", "number"], ["Redone", "number"], ["Failed", "number"]];

const Group = ({ of, title, names, scope }) =>
  Object.keys(names).length > 0 &&
  html`<${Block} title=${title} data-group=${of}>
    <${Table} label=${title} head=${ROWS}>
      ${Object.entries(names)
        .sort(([, one], [, other]) => (other.spent.usd ?? 0) - (one.spent.usd ?? 0) || other.turns - one.turns)
        .map(
          ([name, worth]) => html`<tr key=${name} data-name=${name}>
            <td><${Name} view="today" scope=${scope} of=${of} value=${name} /></td>
            ${numbers(words.usd(worth.spent.usd), html`<a href=${addressOf("turns", scope, { [of]: name })} title="show the turns">${words.whole(worth.turns)}</a>`, words.percent(worth.turns ? worth.fast_turns / worth.turns : null), words.whole(worth.redone.turns), words.whole(worth.failed))}
          </tr>`,
        )}
    <//>
  <//>`;

function Days({ scope }) {
  const span = scope.range in DAYS ? scope.range : "7d";
  const days = daysOf(DAYS[span]);
  const answer = useAnswer(`/tandem/savings?${queryOf({ ...scope, range: span }, { since: span })}`, { everyMs: DAYS_MS });
  return html`<${Answered} answer=${answer} what="the days">${({ by_day: byDay }) => html`
    <div class="plots">
      <${Bars} name="spent" title="Spent by day" days=${days} byDay=${byDay} of=${(worth) => worth.spent.usd} format=${words.usd} scope=${scope} />
      <${Bars} name="turns" title="Turns by day" days=${days} byDay=${byDay} of=${(worth) => worth.turns} format=${words.whole} scope=${scope} />
    </div>`}<//>`;
}

/** What is left of a caller's own budget. Admins have the view Callers. */
function Own() {
  const stats = useAnswer("/tandem/stats", { everyMs: SAVINGS_MS }).value;
  return stats?.budget && Object.keys(stats.budget).length > 0 ? html`<${Block} title="Your budget" data-own-budget><${Budgets} budget=${stats.budget} /><//>` : null;
}

export default function Today({ query }) {
  const scope = { ...readScope(query), from: "", until: "", tier: "", outcome: "" };
  const answer = useAnswer(`/tandem/savings?${queryOf(scope, { since: scope.range })}`, { everyMs: SAVINGS_MS });
  return html`
    <section data-view="today">
      <div class="tools"><h1>Today</h1><${ScopeBar} view="today" scope=${scope} /></div>
      ${!seesCallers() && html`<${Own} />`}
      <${Answered} answer=${answer} what="figures">${(worth) => html`
        <${Cards} worth=${worth} scope=${scope} />
        <${Days} scope=${scope} />
        <div class="blocks">
          ${seesCallers() && html`<${Group} of="caller" title="By person" names=${worth.by_caller} scope=${scope} />`}
          <${Group} of="target" title="By target" names=${worth.by_target} scope=${scope} />
          <${Group} of="client" title="By client" names=${worth.by_client} scope=${scope} />
        </div>`}<//>
    </section>`;
}

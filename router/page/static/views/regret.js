// Regret: what the choices saved and what they cost, each figure with how sure it is and the calls behind it.

import { html } from "../vendor/htm-preact.js";
import { Answered, Choice, link } from "../parts.js";
import { useAnswer } from "../store.js";
import * as words from "../words.js";

const LABELS = {
  saved_seconds: "Time saved by fast turns",
  lost_seconds: "Time lost on fast turns that went wrong",
  deep_needlessly_seconds: "Time spent on deep that fast would have done",
  saved_usd: "Money saved by fast turns",
  lost_usd: "Money lost on fast turns that went wrong",
  hops_usd: "Money paid for changes of tier",
  after_interrupt_tokens: "Tokens written after an interrupt, at most",
};
/** These come from single calls, the others from whole turns. */
const OF_CALLS = new Set(["hops_usd", "after_interrupt_tokens"]);
const SINCE = [["24h", "24 hours"], ["7d", "7 days"], ["30d", "30 days"]];
const SURE = {
  measured: "measured: added up from what happened",
  estimated: "estimated: what happened, against what the other tier was expected to take",
  guessed: "guessed: a rule of thumb; read it as an order of magnitude",
};
const UNITS = { seconds: words.seconds, usd: words.usd, tokens: (value) => `${words.count(value)} tokens` };

const labelOf = (name) => LABELS[name] ?? name.replaceAll("_", " ").replace(/^./, (letter) => letter.toUpperCase());

/** Money of no turns is not known rather than nothing: turns without a price are left out. */
const valueOf = ({ unit, value, count }) => (unit === "usd" && count === 0 ? words.NOTHING : UNITS[unit](value));

const Figure = ({ name, figure }) => html`
  <article class="figure" data-figure=${name}>
    <h2>${labelOf(name)}</h2>
    <p class="value number">${valueOf(figure)}</p>
    <p><span class=${`sure ${figure.sure}`} data-sure=${figure.sure} title=${SURE[figure.sure]}>${figure.sure}</span> ${figure.how}</p>
    ${figure.count > 0 &&
    html`<details>
      <summary>${words.many(figure.count, OF_CALLS.has(name) ? "call" : "turn")} behind it${figure.count > figure.rows.length ? `, the largest ${figure.rows.length}` : ""}</summary>
      <ol class="behind" data-behind>${figure.rows.map((id) => html`<li key=${id}><a data-row-link href=${link("decision", id)}>${id}</a></li>`)}</ol>
    </details>`}
  </article>`;

const Figures = ({ figures }) =>
  Object.keys(figures).length
    ? html`<div class="figures">${Object.entries(figures).map(([name, figure]) => html`<${Figure} key=${name} name=${name} figure=${figure} />`)}</div>`
    : html`<p class="empty" data-empty>Nothing to sum up yet.</p>`;

export default function Regret({ query }) {
  const since = SINCE.some(([value]) => value === query.get("since")) ? query.get("since") : "7d";
  const answer = useAnswer(`/tandem/regret?since=${since}`);
  return html`
    <section data-view="regret">
      <div class="tools"><h1>Regret</h1>
        <${Choice} label="Since" value=${since} options=${SINCE.map(([own, label]) => [own, label, `#/regret?since=${own}`])} />
        ${answer.value && html`<span class="muted push" data-turns>${words.many(answer.value.turns, "turn")}${answer.value.complete === false && ` since ${words.fullTime(answer.value.from)}`}</span>`}
      </div>
      <${Answered} answer=${answer} what="figures">${({ figures }) => html`<${Figures} figures=${figures} />`}<//>
    </section>`;
}

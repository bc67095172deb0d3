// Savings: what the choice of tiers saved, and the turns behind it.

import { html } from "../vendor/htm-preact.js";
import { Answered, Choice, link } from "../parts.js";
import { useAnswer } from "../store.js";
import * as words from "../words.js";

const FIGURES = [["spent", "Spent", "measured"], ["all_deep", "All on deep", "estimated"], ["saved", "Saved", "estimated"], ["redone", "Redone", "measured"]];
const SINCE = [["24h", "24 hours"], ["7d", "7 days"], ["30d", "30 days"]];

const Figure = ({ name, label, sure, value }) => html`
  <article class="figure" data-figure=${name}>
    <h2>${label}</h2>
    <p class="value number">${words.usd(value.usd)} ${words.seconds(value.seconds)}</p>
    <p><span class=${`sure ${sure}`} data-sure=${sure}>${sure}</span></p>
  </article>`;

export default function Savings({ query }) {
  const since = SINCE.some(([value]) => value === query.get("since")) ? query.get("since") : "7d";
  const answer = useAnswer(`/tandem/savings?since=${since}`);
  return html`
    <section data-view="regret">
      <div class="tools"><h1>Savings</h1>
        <${Choice} label="Since" value=${since} options=${SINCE.map(([own, label]) => [own, label, `#/regret?since=${own}`])} />
        ${answer.value && html`<span class="muted push" data-turns>${words.many(answer.value.turns, "turn")}</span>`}
      </div>
      <${Answered} answer=${answer} what="figures">${(worth) =>
        worth.calls
          ? html`<p data-sentence>${worth.sentence}</p>
              <div class="figures">${FIGURES.map(([name, label, sure]) => html`<${Figure} key=${name} ...${{ name, label, sure }} value=${worth[name]} />`)}</div>
              <ol class="behind" data-behind>${worth.redone_turns.map(({ request }) => html`<li key=${request}><a data-row-link href=${link("decision", request)}>${request}</a></li>`)}</ol>`
          : html`<p class="empty" data-empty>Nothing to sum up yet.</p>`}<//>
    </section>`;
}

// Savings: what the choice of tiers saved, and the turns behind it.

import { html } from "../vendor/htm-preact.js";
import { Answered, Block, link, linkToSession, numbers, Table } from "../parts.js";
import { Name, queryOf, readScope, ScopeBar } from "../scope.js";
import { seesCallers, useAnswer } from "../store.js";
import * as words from "../words.js";

const REDONE = { marked: "marked as wrong", moved_up: "moved up while it ran", asked_for_deep: "deep was asked for next", asked_again: "asked again" };

const FIGURES = [
  ["spent", "Spent", "measured", "added up from what every call took and cost"],
  ["all_deep", "All on deep", "estimated", "what the calls on fast would have taken and cost there, by what each decision expected of both targets"],
  ["saved", "Saved", "estimated", "the difference"],
  ["redone", "Redone", "measured", "what fast had worked on turns that were marked, moved up or asked again; this is part of what was spent"],
];

const Figure = ({ name, label, sure, how, value }) => html`
  <article class="figure" data-figure=${name}>
    <h2>${label}${name === "redone" ? `: ${words.many(value.turns, "turn")}` : ""}</h2>
    <p class="value number">${words.usd(value.usd)} <span class="muted">${words.seconds(value.seconds)}</span></p>
    <p><span class=${`sure ${sure}`} data-sure=${sure}>${sure}</span> ${how}</p>
  </article>`;

const head = (last) => [["Time"], ...(seesCallers() ? [["Person"]] : []), ["Client"], ["Session"], ["What happened"], ["Fast took", "number"], ["Cost", "number"], ...last];

const Evidence = ({ name, title, turns, total, scope, last, cells, says }) =>
  turns.length > 0 &&
  html`<${Block} title=${`${title}${total > turns.length ? `, ${turns.length} of ${words.whole(total)}` : ""}`} kind="wide" data-behind=${name}>
    <${Table} label=${title} head=${head(last)}>
      ${turns.map(
        (turn) => html`<tr key=${turn.request} data-behind-row=${turn.request}>
          <td><a data-row-link href=${link("turn", turn.request)} title=${words.fullTime(turn.at)}>${words.time(turn.at)}</a></td>
          ${seesCallers() && html`<td><${Name} view="savings" scope=${scope} of="caller" value=${turn.caller} /></td>`}
          <td><${Name} view="savings" scope=${scope} of="client" value=${turn.client} /></td>
          <td><a href=${linkToSession(turn.session, turn.caller)} title=${turn.session}>${words.shortSession(turn.session)}</a></td>
          <td class="says">${says(turn)}</td>
          ${numbers(words.seconds(turn.seconds), words.usd(turn.usd), ...cells(turn))}
        </tr>`,
      )}
    <//>
  <//>`;

export default function Savings({ query }) {
  const scope = { ...readScope(query), from: "", until: "", tier: "", outcome: "" };
  const answer = useAnswer(`/tandem/savings?${queryOf(scope, { since: scope.range })}`);
  return html`
    <section data-view="savings">
      <div class="tools"><h1>Savings</h1><${ScopeBar} view="savings" scope=${scope} /></div>
      <${Answered} answer=${answer} what="figures">${(worth) =>
        worth.calls
          ? html`
              <p class="lead" data-sentence>${worth.sentence}</p>
              <p class="muted" data-turns>${words.many(worth.turns, "turn")}${worth.complete === false ? ` since ${words.fullTime(worth.from)}` : ""}</p>
              <div class="figures">${FIGURES.map(([name, label, sure, how]) => html`<${Figure} key=${name} ...${{ name, label, sure, how }} value=${worth[name]} />`)}</div>
              <${Evidence} name="redone" title="Turns that were redone" turns=${worth.redone_turns} total=${worth.redone.turns} scope=${scope} last=${[]} cells=${() => []} says=${(turn) => html`<span class="bad">${REDONE[turn.redone] ?? turn.redone}</span> ${turn.because ?? ""}`} />
              <${Evidence} name="saved" title="Turns that saved most" turns=${worth.saving_turns} total=${worth.fast_turns} scope=${scope} last=${[["Time saved", "number"], ["Money saved", "number"]]} cells=${(turn) => [words.seconds(turn.saved_seconds), words.usd(turn.saved_usd)]} says=${(turn) => turn.because ?? ""} />`
          : html`<p class="empty" data-empty>Nothing to sum up in this time.</p>`}<//>
    </section>`;
}

// Session: its turns as a strip of fast and deep, its hops with their cost, and every call.

import { html } from "../vendor/htm-preact.js";
import { Answered, Block, Calls, Facts, Head, Hop, inOut, link, numbers, pathOfSession } from "../parts.js";
import { seesCallers, useAnswer } from "../store.js";
import { Strip } from "../strip.js";
import * as words from "../words.js";

const HOPS = [
  ["Time"],
  ["To"],
  ["Why"],
  ["Time lost", "number", "waiting for the other target to read the conversation"],
  ["Paid", "number", "for a conversation that is not cached there"],
];

const Hops = ({ rows }) => {
  const hops = rows.filter((row) => row.hop);
  if (!hops.length) return html`<p class="muted">It stayed on one tier.</p>`;
  return html`
    <table class="small" aria-label="Changes of tier">
      <${Head} of=${HOPS} />
      <tbody>${hops.map(
        (row) => html`<tr data-hop-row=${row.id}>
          <td><a href=${link("decision", row.id)}>${words.time(row.at)}</a></td>
          <td><${Hop} hop=${row.hop} /> ${row.tier}</td>
          <td>${row.because}</td>
          ${numbers(words.seconds(row.hop_seconds), words.usd(row.hop_cost_usd))}
        </tr>`,
      )}</tbody>
    </table>`;
};

function Shown({ id, found }) {
  const { session, rows } = found;
  const stopped = rows.filter((row) => row.outcome === "INTERRUPTED" || row.outcome === "SUPERSEDED").length;
  return html`
    <div data-session=${id}>
      <div class="title"><h1>${session.client ?? "unknown"} <span class="muted">${words.shortSession(id)}</span></h1></div>
      <${Facts}
        of=${[
          ...(seesCallers() ? [["Caller", session.caller]] : []),
          ["Began", words.time(session.began_at)],
          ["Last call", words.time(session.ended_at)],
          ["Turns", html`<span class="fast">${session.fast_turns} fast</span>, <span class="deep">${session.deep_turns} deep</span>`],
          ["Moved while running", session.moved],
          ["Interrupts", stopped],
          ["Calls", session.calls],
          ["Tokens in → out", inOut(session.input_tokens, session.output_tokens)],
          ["Time of all calls", words.seconds(session.seconds)],
          ["Cost", words.usd(session.cost_usd)],
        ]}
      />
      <div class="block">
        <${Strip} rows=${rows} />
        <p class="legend muted"><span><i class="cell fast"></i> fast</span><span><i class="cell deep"></i> deep</span><span>↑ ↓ changed tier</span><span>× interrupted</span><span>wider: took longer</span></p>
      </div>
      <${Block} title="Changes of tier"><${Hops} rows=${rows} /><//>
      <section><h2>Calls</h2><${Calls} rows=${rows} label="Calls of the session, oldest first" /></section>
      <p class="muted id">${id}</p>
    </div>`;
}

export default function Session({ id, query }) {
  const answer = useAnswer(pathOfSession(id, query.get("caller")));
  return html`<section data-view="session"><${Answered} answer=${answer} what="the session">${(found) => html`<${Shown} id=${id} found=${found} />`}<//></section>`;
}

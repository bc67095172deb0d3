// Session: its calls as a strip of fast and deep, its hops with their cost, and its turns.

import { html } from "../vendor/htm-preact.js";
import { Answered, Block, Copy, Facts, Head, Hop, inOut, link, numbers, pathOfSession, Turns } from "../parts.js";
import { readScope } from "../scope.js";
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
          <td><a href=${link("turn", row.id)}>${words.time(row.at)}</a></td>
          <td><${Hop} hop=${row.hop} /> ${row.tier}</td>
          <td>${row.because}</td>
          ${numbers(words.seconds(row.hop_seconds), words.usd(row.hop_cost_usd))}
        </tr>`,
      )}</tbody>
    </table>`;
};

function Shown({ id, found }) {
  const { session, rows } = found;
  const turns = useAnswer(`/tandem/turns?${new URLSearchParams({ session: id, caller: session.caller, limit: 200 })}`);
  const stopped = rows.filter((row) => ["ABANDONED", "INTERRUPTED", "SUPERSEDED"].includes(row.outcome)).length;
  return html`
    <div data-session=${id}>
      <div class="title"><h1>${session.client ?? "unknown"} <span class="muted">${words.shortSession(id)}</span></h1></div>
      <${Facts}
        of=${[
          ...(seesCallers() ? [["Person", session.caller]] : []),
          ["Began", words.time(session.began_at)],
          ["Last call", words.time(session.ended_at)],
          ["Turns", html`<span class="fast">${session.fast_turns} fast</span>, <span class="deep">${session.deep_turns} deep</span>`],
          ["Moved while running", session.moved],
          ["Interrupts", stopped],
          ["Calls", session.calls],
          ["Tokens in → out", inOut(session.input_tokens, session.output_tokens)],
          ["Time of all calls", words.seconds(session.seconds)],
          ["Cost", `${words.usd(session.cost_usd)}${words.worth(session.list_usd, ", ")}`],
        ]}
      />
      <div class="block">
        <${Strip} rows=${rows} />
        <p class="legend muted"><span><i class="cell fast"></i> fast</span><span><i class="cell deep"></i> deep</span><span>↑ ↓ changed tier</span><span>× interrupted</span><span>wider: took longer</span></p>
      </div>
      <${Block} title="Changes of tier"><${Hops} rows=${rows} /><//>
      <section><h2>Turns</h2><${Answered} answer=${turns} what="its turns">${(list) => html`<${Turns} turns=${list.turns} scope=${readScope(new URLSearchParams())} label="Turns of the session, newest first" />`}<//></section>
      <p class="muted id">${id} <${Copy} text=${id} /></p>
    </div>`;
}

export default function Session({ id, query }) {
  const answer = useAnswer(pathOfSession(id, query.get("caller")));
  return html`<section data-view="session"><${Answered} answer=${answer} what="the session">${(found) => html`<${Shown} id=${id} found=${found} />`}<//></section>`;
}

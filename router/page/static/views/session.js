// Session: its turns as a strip of fast and deep, its hops with their cost, and every call.

import { html } from "../vendor/htm-preact.js";
import { Calls, Fact, Failed, Hop, link, Loading } from "../parts.js";
import { useAnswer } from "../store.js";
import { Strip } from "../strip.js";
import * as words from "../words.js";

const Hops = ({ rows }) => {
  const hops = rows.filter((row) => row.hop);
  if (!hops.length) return html`<p class="muted">It stayed on one tier.</p>`;
  return html`
    <table class="small" aria-label="Hops">
      <thead><tr><th scope="col">Time</th><th scope="col">To</th><th scope="col">Why</th><th scope="col" class="number" title="waiting for the other target to read the conversation">Time lost</th><th scope="col" class="number" title="paying for a conversation that is not cached there">Paid</th></tr></thead>
      <tbody>${hops.map(
        (row) => html`<tr data-hop-row=${row.id}>
          <td><a href=${link("decision", row.id)}>${words.time(row.at)}</a></td>
          <td><${Hop} hop=${row.hop} /> ${row.tier}</td>
          <td>${row.because}</td>
          <td class="number">${words.seconds(row.hop_seconds)}</td>
          <td class="number">${words.usd(row.hop_cost_usd)}</td>
        </tr>`,
      )}</tbody>
    </table>`;
};

export default function Session({ id }) {
  const { value, error, again } = useAnswer(`/tandem/sessions/${encodeURIComponent(id)}`);
  if (error && !value) return html`<section data-view="session"><${Failed} error=${error} again=${again} /></section>`;
  if (!value) return html`<section data-view="session"><${Loading} what="the session" /></section>`;
  const { session, rows } = value;
  const stopped = rows.filter((row) => row.outcome === "INTERRUPTED" || row.outcome === "SUPERSEDED").length;
  return html`
    <section data-view="session" data-session=${id}>
      <div class="title"><h1>${session.client ?? "unknown"} <span class="muted">${words.shortSession(id)}</span></h1></div>
      <dl class="facts">
        <${Fact} label="Began">${words.time(session.began_at)}<//>
        <${Fact} label="Last call">${words.time(session.ended_at)}<//>
        <${Fact} label="Turns"><span class="fast">${session.fast_turns} fast</span>, <span class="deep">${session.deep_turns} deep</span><//>
        <${Fact} label="Moved while running">${session.moved}<//>
        <${Fact} label="Interrupts">${stopped}<//>
        <${Fact} label="Calls">${session.calls}<//>
        <${Fact} label="Tokens in → out">${words.count(session.input_tokens)} → ${words.count(session.output_tokens)}<//>
        <${Fact} label="Time of all calls">${words.seconds(session.seconds)}<//>
        <${Fact} label="Cost">${words.usd(session.cost_usd)}<//>
      </dl>
      <div class="block">
        <${Strip} rows=${rows} />
        <p class="legend muted"><span><i class="cell fast"></i> fast</span><span><i class="cell deep"></i> deep</span><span>↑ ↓ changed tier</span><span>× interrupted</span><span>wider: took longer</span></p>
      </div>
      <section class="block" aria-labelledby="hops"><h2 id="hops">Changes of tier</h2><${Hops} rows=${rows} /></section>
      <section aria-labelledby="calls"><h2 id="calls">Calls</h2><${Calls} rows=${rows} label="Calls of the session, oldest first" /></section>
      <p class="muted id">${id}</p>
    </section>`;
}

// Sessions: the latest conversations, one line each.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { Failed, inOut, linkToSession, Loading, numbers, openRow, Table } from "../parts.js";
import { addressOf, Name, queryOf, readScope, ScopeBar } from "../scope.js";
import { ask, seesCallers } from "../store.js";
import * as words from "../words.js";

/** How the turns divide, as a bar; the numbers are next to it. */
const Share = ({ fast, deep }) => html`
  <span class="share" aria-hidden="true">
    <span class="fill fast" style=${{ flexGrow: fast }}></span><span class="fill deep" style=${{ flexGrow: deep }}></span>
  </span>`;

const head = () => [
  ["Session"],
  ...(seesCallers() ? [["Person"]] : []),
  ["Client"],
  ["Began"],
  ["Last call"],
  ["Turns", "number"],
  ["Fast / deep"],
  ["Moved", "number", "turns that were moved to the other tier while they ran"],
  ["Calls", "number"],
  ["In → out", "number"],
  ["Time", "number", "of all calls together"],
  ["Cost", "number"],
];

const Line = ({ session, scope }) => {
  const href = linkToSession(session.session, session.caller);
  return html`
    <tr data-row=${session.session} onClick=${openRow(href)}>
      <td><a data-row-link href=${href} title=${session.session}>${words.shortSession(session.session)}</a></td>
      ${seesCallers() && html`<td><${Name} view="sessions" scope=${scope} of="caller" value=${session.caller} /></td>`}
      <td><${Name} view="sessions" scope=${scope} of="client" value=${session.client} /></td>
      <td>${words.time(session.began_at)}</td>
      <td>${words.time(session.ended_at)}</td>
      <td class="number">${session.turns}</td>
      <td class="c-share"><${Share} fast=${session.fast_turns} deep=${session.deep_turns} /> <span class="number"><span class="fast">${session.fast_turns}</span> / <span class="deep">${session.deep_turns}</span></span></td>
      ${numbers(session.moved, session.calls, inOut(session.input_tokens, session.output_tokens), words.seconds(session.seconds), words.usd(session.cost_usd))}
    </tr>`;
};

export default function Sessions({ query }) {
  const scope = { ...readScope(query), tier: "", target: "", outcome: "" };
  const [list, setList] = useState({ sessions: [], next: null, error: null, isLoading: true });
  const load = async (before) => {
    setList((old) => ({ ...old, error: null, isLoading: true }));
    try {
      const { sessions, next } = await ask(`/tandem/sessions?${queryOf(scope, { limit: 50, before })}`);
      setList((old) => ({ sessions: before ? [...old.sessions, ...sessions] : sessions, next, error: null, isLoading: false }));
    } catch (error) {
      setList((old) => ({ ...old, error, isLoading: false }));
    }
  };
  useEffect(() => void load(null), [addressOf("sessions", scope)]);
  return html`
    <section data-view="sessions">
      <div class="tools"><h1>Sessions</h1><${ScopeBar} view="sessions" scope=${scope} /></div>
      ${list.sessions.length > 0 &&
      html`<${Table} label="Sessions, latest first" head=${head()}>${list.sessions.map((session) => html`<${Line} key=${`${session.caller}/${session.session}`} session=${session} scope=${scope} />`)}<//>`}
      ${list.isLoading && !list.sessions.length && html`<${Loading} what="sessions" />`}
      ${list.error && html`<${Failed} error=${list.error} again=${() => load(null)} />`}
      ${!list.isLoading && !list.error && !list.sessions.length && html`<p class="empty" data-empty>No sessions in this time.</p>`}
      ${list.next && html`<p class="after"><button type="button" data-older disabled=${list.isLoading} onClick=${() => load(list.next)}>Show older sessions</button></p>`}
    </section>`;
}

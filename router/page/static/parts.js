// Parts that several views share: tags, lists of calls, and what is shown while there is nothing to show.

import { Component, html, useEffect, useState } from "./vendor/htm-preact.js";
import { now, seesCallers } from "./store.js";
import * as words from "./words.js";

export const link = (view, id) => `#/${view}/${encodeURIComponent(id)}`;

/** Two callers may have sessions of one name: where both can be seen, the address says whose it is. */
export const linkToSession = (session, caller) =>
  link("session", session) + (caller && seesCallers() ? `?caller=${encodeURIComponent(caller)}` : "");

export const pathOfSession = (session, caller) =>
  `/tandem/sessions/${encodeURIComponent(session)}${caller ? `?caller=${encodeURIComponent(caller)}` : ""}`;

/** A tier by its name and colour; the name is always there, so the colour only helps. */
export const Tier = ({ tier }) => html`<span class=${`tier ${tier ?? "none"}`} data-tier=${tier ?? ""}>${tier ?? "none"}</span>`;

const HOPS = { up: ["↑", "moved up to deep with this call"], down: ["↓", "moved down to fast with this call"] };
export const Hop = ({ hop }) => {
  const [sign, meaning] = HOPS[hop] ?? [];
  return sign ? html`<span class="hop" data-hop=${hop} title=${meaning} role="img" aria-label=${meaning}>${sign}</span>` : null;
};

export const Loading = ({ what }) => html`<p class="empty" role="status">Loading ${what}…</p>`;

export const Failed = ({ error, again }) => html`
  <div class="empty" role="alert" data-failed>
    <p>${error.message}</p>
    ${again && html`<button type="button" onClick=${again}>Try again</button>`}
  </div>`;

/** A choice of a few, as links: each has an address. `options`: [value, label, href]. */
export const Choice = ({ label, value, options }) => html`
  <nav class="choice" aria-label=${label}>
    ${options.map(
      ([own, text, href]) =>
        html`<a key=${own} href=${href} data-choice=${own} aria-current=${own === value ? "true" : undefined}>${text}</a>`,
    )}
  </nav>`;

/** Labels with their values: [label, value, title]. */
export const Facts = ({ of }) => html`
  <dl class="facts">${of.map(([label, value, title]) => html`<div class="fact" title=${title}><dt>${label}</dt><dd>${value}</dd></div>`)}</dl>`;

/** The head of a table: [label, class, title] for each column. */
export const Head = ({ of }) => html`<thead><tr>${of.map(([label, name, title]) => html`<th scope="col" class=${name} title=${title}>${label}</th>`)}</tr></thead>`;

/** Cells with numbers in them. */
export const numbers = (...values) => values.map((value) => html`<td class="number">${value}</td>`);

/** Tokens of the prompt and of the answer. */
export const inOut = (input, output) => `${words.count(input)} → ${words.count(output)}`;

/** A part of a view, with its title. */
export const Block = ({ title, kind = "", children, ...more }) => html`<section class=${`block ${kind}`} aria-label=${title} ...${more}><h2>${title}</h2>${children}</section>`;

/** A table that scrolls sideways where it must. */
export const Table = ({ label, head, children }) => html`
  <div class="scroll" tabindex="0" role="region" aria-label=${label}><table class="list" aria-label=${label}><${Head} of=${head} /><tbody>${children}</tbody></table></div>`;

/** What an answer shows, once it is there; until then that it loads, or why it failed. */
export const Answered = ({ answer, what, children }) =>
  answer.value ? children(answer.value) : answer.error ? html`<${Failed} error=${answer.error} again=${answer.again} />` : html`<${Loading} what=${what} />`;

/** A clock that runs. `since` is when it began, by the router's clock. */
export function Clock({ since }) {
  const [, draw] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => draw((count) => count + 1), 100);
    return () => clearInterval(timer);
  }, []);
  return html`<span data-clock>${Math.max(0, now() - since).toFixed(1)} s</span>`;
}

export const openRow = (href) => (event) => {
  // A click into the row opens it, unless it was meant for a link in it or marks text.
  if (!event.target.closest("a, button") && !String(getSelection())) location.hash = href;
};

const isBad = (outcome) => outcome && outcome !== "SERVED";

const Who = ({ call }) => html`
  ${call.client ?? call.caller ?? "unknown"}
  ${call.session && html` <a class="quiet" href=${linkToSession(call.session, call.caller)} title="show the session">${words.shortSession(call.session)}</a>`}`;

const Why = ({ call }) => html`
  ${call.replica && html`<span class="quiet" data-replica=${call.replica} title="the router that serves it">${call.replica}</span> `}
  ${call.words && html`<span class="words" data-words>${call.words}</span> `}
  ${isBad(call.outcome) && html`<span class="bad" data-outcome=${call.outcome}>${words.outcome(call.outcome)}${call.error ? ` (${call.error})` : ""}</span> `}
  <span class="because">${call.because ?? ""}</span>`;

/** What a call is, the same while it runs and after it. */
const about = (call) => html`
  <td class="c-who"><${Who} call=${call} /></td>
  <td class="c-kind">${words.kind(call.turn_kind)}</td>
  <td class="c-tier"><${Tier} tier=${call.tier} /><${Hop} hop=${call.hop} /></td>
  <td class="c-target">${call.target ?? words.NOTHING}</td>
  <td class="c-why"><${Why} call=${call} /></td>`;

/** One finished call. It is drawn once: a row never changes. Only its links do, once it is known who reads. */
class CallRow extends Component {
  shouldComponentUpdate(next) {
    return next.row !== this.props.row || next.namesCaller !== this.props.namesCaller;
  }

  render({ row }) {
    const href = link("decision", row.id);
    return html`
      <tr data-row=${row.id} onClick=${openRow(href)}>
        <td class="c-time"><a data-row-link href=${href} title=${words.fullTime(row.at)}>${words.time(row.at)}</a></td>
        ${about(row)}
        <td class="c-first number">${words.milliseconds(row.ttft_ms)}</td>
        <td class="c-speed number">${words.whole(row.tokens_per_second)}</td>
        <td class="c-took number">${words.milliseconds(row.duration_ms)}</td>
        <td class="c-tokens number">${inOut(row.input_tokens, row.output_tokens)}</td>
        <td class="c-cost number">${words.usd(row.cost_usd)}</td>
      </tr>`;
  }
}

const RunningRow = ({ call }) => html`
  <tr data-running=${call.id} class="running">
    <td class="c-time">${words.time(call.at)}</td>
    ${about(call)}
    <td class="c-first number" colspan="2">running</td>
    <td class="c-took number"><${Clock} since=${call.at} /></td>
    <td class="c-tokens"></td>
    <td class="c-cost"></td>
  </tr>`;

const COLUMNS = [
  ["Time", "c-time"],
  ["Client", "c-who"],
  ["Kind", "c-kind"],
  ["Tier", "c-tier"],
  ["Target", "c-target"],
  ["Why", "c-why"],
  ["First token", "c-first number", "time to the first token"],
  ["Tokens/s", "c-speed number", "output tokens a second"],
  ["Took", "c-took number"],
  ["In → out", "c-tokens number", "tokens in and out"],
  ["Cost", "c-cost number"],
];

/** Calls as a table: those that run first, then finished ones in the order given. */
export const Calls = ({ rows, running = [], label }) => html`
  <table class="calls" aria-label=${label}>
    <${Head} of=${COLUMNS} />
    <tbody>
      ${running.map((call) => html`<${RunningRow} key=${call.id} call=${call} />`)}
      ${rows.map((row) => html`<${CallRow} key=${row.id} row=${row} namesCaller=${seesCallers()} />`)}
    </tbody>
  </table>`;

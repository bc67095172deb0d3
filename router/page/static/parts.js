// Parts that several views share: tags, lists of turns, and what is shown while there is nothing to show.

import { Component, html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { Name } from "./scope.js";
import { ask, now, seesCallers, store } from "./store.js";
import * as words from "./words.js";

export const link = (view, id) => `#/${view}/${encodeURIComponent(id)}`;

/** Two callers may have sessions of one name: where both can be seen, the address says whose it is. */
export const linkToSession = (session, caller) =>
  link("session", session) + (caller && seesCallers() ? `?caller=${encodeURIComponent(caller)}` : "");

export const pathOfSession = (session, caller) =>
  `/tandem/sessions/${encodeURIComponent(session)}${caller ? `?caller=${encodeURIComponent(caller)}` : ""}`;

/** A tier by its name and colour; the name is always there, so the colour only helps. */
export const Tier = ({ tier }) => html`<span class=${`tier ${tier ?? "none"}`} data-tier=${tier ?? ""}>${tier ?? "none"}</span>`;

/** The tier that served a turn; nobody where it was refused before a target was called. */
export const Served = ({ of }) => (of.outcome === "REFUSED" && !of.target ? html`<span class="tier none" data-tier="">nobody</span>` : html`<${Tier} tier=${of.tier} />`);

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

/** A table that scrolls sideways where it must, and says so. */
export function Table({ label, head, children }) {
  const place = useRef(null);
  const [isWide, setWide] = useState(false);
  useEffect(() => {
    const look = () => place.current && setWide(place.current.scrollWidth > place.current.clientWidth + 1);
    const watch = new ResizeObserver(look);
    watch.observe(place.current);
    watch.observe(place.current.firstElementChild);
    return () => watch.disconnect();
  }, []);
  return html`
    ${isWide && html`<p class="muted small-text" data-scrolls>More columns: scroll the table sideways →</p>`}
    <div ref=${place} class="scroll" tabindex="0" role="region" aria-label=${label}><table class="list" aria-label=${label}><${Head} of=${head} /><tbody>${children}</tbody></table></div>`;
}

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

/** Copies a text, such as an id or a command. */
export function Copy({ text, what = "id" }) {
  const [isDone, setDone] = useState(false);
  const copy = async () => {
    // Browsers have a clipboard only for pages from this machine or over TLS.
    if (navigator.clipboard) await navigator.clipboard.writeText(text).catch(() => {});
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return html`<button type="button" class="copy" data-copy=${text} title=${`copy ${text}`} aria-label=${`Copy the ${what}`} onClick=${copy}>${isDone ? "copied" : "copy"}</button>`;
}

/** A command to run in a terminal. */
export const Command = ({ text }) => html`<code>${text}</code> <${Copy} text=${text} what="command" />`;

const isBad = (outcome) => outcome && outcome !== "SERVED";

/** What both tiers did, unless the sentence says so itself. */
const combined = (of) => (of.combined && !(of.why ?? of.because ?? "").includes(of.combined) ? of.combined : "");

/** What happened, in the sentence that the caller got; the trouble is in red before it. */
export const Sentence = ({ of }) => html`
  ${of.replica && html`<span class="quiet" data-replica=${of.replica} title="the router that serves it">${of.replica}</span> `}
  ${of.words && html`<span class="words" data-words>${of.words}</span> `}
  ${isBad(of.outcome) && of.trouble && html`<span class="bad" data-outcome=${of.outcome}>${of.trouble}${of.why ?? of.because ? ": " : ""}</span>`}
  ${combined(of) && html`<span data-combined>${combined(of)};</span> `}
  <span class="because">${of.why ?? of.because ?? ""}</span>`;

const marks = (turn) => turn.mark && html`<span class="mark-of-turn" data-mark=${turn.mark} title=${`marked: ${turn.mark} would have been right`}>should be ${turn.mark}</span>`;

/** Who a turn is of: a person where there are several, the client, the session. A name filters by itself. */
const about = (of, scope) => html`
  ${seesCallers() && html`<td class="c-caller"><${Name} view="turns" scope=${scope} of="caller" value=${of.caller} /></td>`}
  <td class="c-who"><${Name} view="turns" scope=${scope} of="client" value=${of.client} />
    ${of.session && html` <a class="quiet" href=${linkToSession(of.session, of.caller)} title=${`show the session ${of.session}`}>${words.shortSession(of.session)}</a>`}</td>
  <td class="c-tier"><${Served} of=${of} />${(of.hops ?? []).map((hop) => html`<${Hop} hop=${hop.hop} />`)}
    ${of.target && html` <${Name} view="turns" scope=${scope} of="target" value=${of.target} />`}</td>`;

/** One turn. It is drawn again only where it changed. */
class TurnRow extends Component {
  shouldComponentUpdate(next) {
    return next.turn !== this.props.turn || next.namesCaller !== this.props.namesCaller || next.scopeKey !== this.props.scopeKey;
  }

  render({ turn, scope }) {
    const href = link("turn", turn.id);
    return html`
      <tr data-row=${turn.id} onClick=${openRow(href)}>
        <td class="c-time"><a data-row-link href=${href} title=${words.fullTime(turn.at)}>${words.time(turn.at)}</a></td>
        ${about(turn, scope)}
        <td class="c-why" title=${words.sentence(turn)}>${marks(turn)}${turn.job && html`<span class="chip" data-of-job=${turn.job}>job</span> `}<${Sentence} of=${turn} /></td>
        <td class="c-calls number">${turn.calls || words.NOTHING}</td>
        <td class="c-first number">${words.seconds(turn.first_seconds)}</td>
        <td class="c-took number">${words.seconds(turn.seconds)}</td>
        <td class="c-cost number" title=${words.worth(turn.list_usd)}>${words.cost(turn)}${turn.cost_is_partial && turn.cost_usd != null ? "+" : ""}</td>
      </tr>`;
  }
}

const RunningRow = ({ call, scope }) => html`
  <tr data-running=${call.id} class="running">
    <td class="c-time">${call.turn ? html`<a data-row-link href=${link("turn", call.turn.id)}>${words.time(call.turn.at)}</a>` : words.time(call.at)}</td>
    ${about(call, scope)}
    <td class="c-why" title=${call.because}><${Sentence} of=${call} /></td>
    <td class="c-calls number">${(call.turn?.calls ?? 0) + 1}</td>
    <td class="c-first number">running</td>
    <td class="c-took number"><${Clock} since=${call.at - (call.turn?.seconds ?? 0)} /></td>
    <td class="c-cost"></td>
  </tr>`;

const columns = () => [
  ["Time", "c-time"],
  ...(seesCallers() ? [["Person", "c-caller"]] : []),
  ["Client", "c-who"],
  ["Served by", "c-tier", "the tier and target that served; arrows where it changed tier"],
  ["What happened", "c-why"],
  ["Calls", "c-calls number", "calls of this turn"],
  ["First token", "c-first number", "time to the first token"],
  ["Took", "c-took number", "all its calls together"],
  ["Cost", "c-cost number"],
];

/** Turns as a table: jobs that are not collected, running ones, then finished ones in the order given. */
export const Turns = ({ turns, running = [], jobs = [], scope, scopeKey = JSON.stringify(scope), again, label }) => html`
  <table class=${`turns ${seesCallers() ? "of-several" : ""}`} aria-label=${label}>
    <${Head} of=${columns()} />
    <tbody>
      ${jobs.map((job) => html`<${JobRow} key=${job.id} job=${job} again=${again} />`)}
      ${running.map((call) => html`<${RunningRow} key=${call.id} call=${call} scope=${scope} />`)}
      ${turns.map((turn) => html`<${TurnRow} key=${turn.id} turn=${turn} scope=${scope} scopeKey=${scopeKey} namesCaller=${seesCallers()} />`)}
    </tbody>
  </table>`;

const JOBS = { queued: "waits to begin", in_progress: "is running", running: "is running", completed: "is done, and nobody has read its result", failed: "failed", cancelled: "is cancelled", incomplete: "ended early" };

const textOf = (response) => (response.output ?? []).flatMap((item) => item.content ?? []).map((part) => part.text ?? "").join("\n").trim();

/** What can be done with a job: read its result, or cancel it. */
export function JobActions({ job, again }) {
  const [state, setState] = useState({});
  const act = (what) => async () => {
    setState({ isSending: true });
    try {
      setState(await what());
    } catch (error) {
      setState({ error });
    }
  };
  const isOwn = job.caller === store.get().hello?.caller;
  const read = act(async () => {
    const response = await ask(`/v1/responses/${encodeURIComponent(job.id)}`);
    return { result: textOf(response) || response.error?.message || "It wrote nothing." };
  });
  const cancel = act(async () => {
    await ask(`/tandem/jobs/${encodeURIComponent(job.id)}/cancel?caller=${encodeURIComponent(job.caller)}`, { method: "POST" });
    again?.();
    return {};
  });
  return html`
    ${job.ended_at
      ? isOwn && !state.result && html`<button type="button" data-job-result disabled=${state.isSending} onClick=${read}>Show the result</button>`
      : html`<button type="button" data-job-cancel disabled=${state.isSending} onClick=${cancel}>Cancel</button>`}
    ${state.error && html` <span class="bad" role="alert">${state.error.message}</span>`}
    ${state.result && html`<pre class="result" tabindex="0" data-result>${state.result}</pre>`}`;
}

export const jobWords = (job) => `job ${JOBS[job.state] ?? job.state}`;

const JobRow = ({ job, again }) => html`
  <tr data-job=${job.state} class="job">
    <td class="c-time" title=${words.fullTime(job.created_at)}>${words.time(job.created_at)}</td>
    ${seesCallers() && html`<td class="c-caller">${job.caller}</td>`}
    <td class="c-who">job</td>
    <td class="c-tier"><${Tier} tier=${job.tier} /></td>
    <td class="c-why" colspan="4"><span class=${job.state === "failed" ? "bad" : ""}>${jobWords(job)}</span>${job.title && html`: <span class="because">${job.title}</span>`} <${JobActions} job=${job} again=${again} /></td>
    <td class="c-cost number">${job.ended_at ? words.seconds(job.ended_at - job.created_at) : html`<${Clock} since=${job.created_at} />`}</td>
  </tr>`;

/** How much of a limit is used, as a bar with words. */
export const Meter = ({ used, limit, label, text }) => {
  const share = limit > 0 ? Math.min(1, used / limit) : 1;
  return html`
    <div class="meter"><span class="number">${text}</span>
      <span class="track" role="img" aria-label=${`${label}: ${words.percent(share)} used`}><span class=${`fill ${share >= 1 ? "spent" : share >= 0.8 ? "near" : ""}`} style=${{ width: `${(share * 100).toFixed(1)}%` }}></span></span>
    </div>`;
};

const until = (at) => new Date(at).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

/** A caller's budgets by period, each with what is left. */
export const Budgets = ({ budget }) =>
  Object.entries(budget).map(
    ([period, one]) => html`<div key=${period} data-budget=${period}>
      <${Meter} used=${one.spent_usd} limit=${one.limit_usd} label=${`budget of the ${period}`} text=${`${words.usd(one.spent_usd)} of ${words.usd(one.limit_usd)} this ${period}`} />
      <span class="muted small-text">${words.usd(one.left_usd)} left${one.held_usd > 0 ? `, ${words.usd(one.held_usd)} held for running calls` : ""}, until ${until(one.resets_at)}</span>
    </div>`,
  );

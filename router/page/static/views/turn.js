// Turn: what happened, the calls of it, and why the one that is shown went where it went.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { Answered, Block, Copy, Facts, Hop, inOut, JobActions, jobWords, link, linkToSession, numbers, openRow, pathOfSession, Sentence, Served, Table, Tier } from "../parts.js";
import { Name, readScope } from "../scope.js";
import { Strip } from "../strip.js";
import { ask, markTurn, seesCallers, store, useAnswer, useStore, wantsWords } from "../store.js";
import * as words from "../words.js";

const OTHER = { fast: "deep", deep: "fast" };
const PARTS = [
  ["wait", "in a queue, before it begins"],
  ["work", "on the turn itself"],
];
const DECIDERS = { estimate: "both estimates", rule_out: "only one tier could serve" };

const decider = (found) => DECIDERS[found.decided_by] ?? found.decided_by;

const KIND_WORDS = { insist: "insists on", rule_out: "rules out" };

function Bar({ item, scale }) {
  const share = (Math.min(1, Math.abs(item.log_odds) / scale) * 50).toFixed(2);
  const isDeep = item.log_odds > 0;
  return html`
    <li class="evidence" data-evidence=${item.policy}>
      <span class="says">${item.because} <span class="muted">${item.policy}</span></span>
      <span class="axis" role="img" aria-label=${`${Math.abs(item.log_odds).toFixed(2)} towards ${isDeep ? "deep" : "fast"}`}>
        <span class=${`lean ${isDeep ? "deep" : "fast"}`} style=${{ width: `${share}%`, [isDeep ? "left" : "right"]: "50%" }}></span>
      </span>
      <span class="number">${isDeep ? "+" : "−"}${Math.abs(item.log_odds).toFixed(2)}</span>
    </li>`;
}

const Said = ({ item }) => html`
  <li class="evidence said" data-evidence=${item.policy}>
    <span class="says">${item.because} <span class="muted">${item.policy}</span></span>
    <span class="verdict">${KIND_WORDS[item.kind] ?? item.kind.replaceAll("_", " ")} ${item.tier ?? item.target ?? ""}</span>
  </li>`;

function Evidence({ found }) {
  const leans = found.evidence.filter((item) => typeof item.log_odds === "number");
  const others = found.evidence.filter((item) => typeof item.log_odds !== "number");
  const scale = Math.max(2, ...leans.map((item) => Math.abs(item.log_odds)));
  return html`
    <${Block} title="Evidence">
      ${found.evidence.length === 0 && html`<p class="muted">No policy had anything to say: the usual share of long tasks decided.</p>`}
      ${others.length > 0 && html`<ul class="plain">${others.map((item) => html`<${Said} item=${item} />`)}</ul>`}
      ${leans.length > 0 &&
      html`<div class="scale" aria-hidden="true"><span>a quick edit, for <b class="fast">fast</b></span><span>a long task, for <b class="deep">deep</b></span></div>
        <ul class="plain">${leans.map((item) => html`<${Bar} item=${item} scale=${scale} />`)}</ul>`}
      <${Score} score=${found.score} flip=${found.flip?.score} />
      ${found.skipped?.length > 0 && html`<p class="bad">Not heard: ${found.skipped.map((item) => `${item.policy} (${item.reason})`).join(", ")}</p>`}
    <//>`;
}

const Score = ({ score, flip }) => html`
  <div class="score">
    <div class="track" role="img" aria-label=${`chance of a long task: ${words.percent(score)}`}>
      <span class="fill" style=${{ width: `${(score * 100).toFixed(1)}%` }}></span>
      ${typeof flip === "number" && html`<span class="mark" style=${{ left: `${(flip * 100).toFixed(1)}%` }}></span>`}
    </div>
    <p>Chance of a long task: <b class="number">${words.percent(score)}</b>${typeof flip === "number" ? html`<span class="muted"> · the tier changes at ${words.percent(flip)}</span>` : null}</p>
  </div>`;

/** The decision also weighs what a wrong answer would take; nobody has measured that for this turn. */
const untilAnswer = (estimate) => estimate.seconds - (estimate.redo_seconds ?? 0);

function Estimate({ tier, estimate, longest, label }) {
  const wait = estimate.wait_seconds ?? 0;
  const parts = { wait, work: Math.max(0, untilAnswer(estimate) - wait) };
  const width = (part) => ({ width: `${((parts[part] / longest) * 100).toFixed(2)}%` });
  return html`
    <div class="estimate" data-estimate=${tier}>
      <div class="head"><${Tier} tier=${tier} /> <span>${estimate.target}</span><span class="muted" data-estimate-says>${label}</span>
        <b class="number push">${words.seconds(untilAnswer(estimate))}</b></div>
      <div class="stack" role="img" aria-label=${PARTS.map(([part]) => `${part} ${words.seconds(parts[part])}`).join(", ")}>
        ${PARTS.map(([part]) => html`<span class=${`part ${part} ${tier}`} data-part=${part} style=${width(part)}></span>`)}
      </div>
      <dl class="parts">
        ${PARTS.map(([part, meaning]) => html`<div title=${meaning}><dt><i class=${`part ${part} ${tier}`}></i>${part}</dt><dd class="number">${words.seconds(parts[part])}</dd></div>`)}
        <div title="what the target charges"><dt>price</dt><dd class="number">${words.usd(estimate.money_usd === null ? null : estimate.money_usd - (estimate.redo_usd ?? 0))}</dd></div>
      </dl>
    </div>`;
}

/** What became of a tier: the one that was chosen may have failed, and another have served. */
function labelOf(tier, found, call) {
  const isServed = call && call.tier === tier && call.status < 400;
  if (tier !== found.tier) return isServed ? `served, since ${found.tier} could not` : "";
  return isServed || !call ? "chosen" : "chosen, and did not serve";
}

function Estimates({ found, call }) {
  const tiers = Object.entries(found.estimates ?? {});
  const longest = Math.max(0.001, ...tiers.map(([, estimate]) => untilAnswer(estimate)));
  return html`
    <${Block} title="Expected time to done">
      ${tiers.length === 0 && html`<p class="muted">Nothing was weighed: ${decider(found)} decided.</p>`}
      ${tiers.length > 0 && found.decided_by !== "estimate" && html`<p class="muted">These were not asked: ${decider(found)} decided.</p>`}
      ${tiers.map(([tier, estimate]) => html`<${Estimate} tier=${tier} estimate=${estimate} longest=${longest} label=${labelOf(tier, found, call)} />`)}
      ${found.redo && html`<p class="muted">A chance of ${words.percent(found.redo.chance)} that fast's answer is wrong${found.redo.learned_turns ? `, learned from ${words.many(found.redo.learned_turns, "turn")}` : ", assumed until turns have shown it"}.</p>`}
    <//>`;
}

function Flip({ found }) {
  const { score, fast_wait_seconds: wait } = found.flip ?? {};
  const sentences = [];
  if (typeof score === "number") sentences.push(html`<li>a chance of a long task ${found.score >= score ? "below" : "above"} <b class="number">${words.percent(score)}</b> (it was ${words.percent(found.score)})</li>`);
  if (typeof wait === "number") sentences.push(html`<li>a wait for fast ${found.tier === "fast" ? "over" : "under"} <b class="number">${words.seconds(wait)}</b></li>`);
  return html`
    <${Block} title=${`What would have chosen ${OTHER[found.tier]}`} data-flip>
      ${sentences.length ? html`<ul>${sentences}</ul>` : html`<p class="muted">Nothing in the estimates: ${decider(found)} decided.</p>`}
    <//>`;
}

const Attempts = ({ found }) => html`
  <${Block} title="Attempts" kind="wide">
    ${found.queued?.map((item) => html`<p class="muted">Waited ${words.seconds(item.seconds)} for ${item.target}.</p>`)}
    ${found.attempts?.length
      ? html`<${Table} label="Attempts" head=${[["Target"], ["Answer"], ["Took", "number"], ["In → out", "number"], ["Cost", "number"]]}>
          ${found.attempts.map(
            (attempt, index) => html`<tr data-attempt=${index}>
              <td>${attempt.target}${attempt.is_question ? html` <span class="muted">${attempt.is_look ? "look" : "question"}</span>` : null}</td>
              <td>${attempt.error ? html`<span class="bad">${attempt.status ?? ""} ${attempt.error.replaceAll("_", " ")}</span>` : (attempt.status ?? "no answer")}</td>
              ${numbers(words.seconds(attempt.seconds), inOut(attempt.usage?.input_tokens, attempt.usage?.output_tokens), words.cost(attempt))}
            </tr>`,
          )}
        <//>`
      : html`<p class="muted">No target was called.</p>`}
    ${found.dropped?.length > 0 && html`<p class="muted">Left out on the way to the target: ${found.dropped.join(", ")}</p>`}
  <//>`;

/** Marks a turn as sent to the wrong tier, or takes the mark back. */
function Mark({ turn, again }) {
  const [state, setState] = useState({});
  const other = OTHER[turn.tier];
  const judge = (tier) => async () => {
    setState({ isSending: true });
    try {
      await ask(`/tandem/wrong/${encodeURIComponent(turn.id)}`, { body: { tier } });
      markTurn(turn.id, tier === turn.tier ? null : tier);
      again();
      setState({});
    } catch (error) {
      setState({ error });
    }
  };
  if (!turn.can_be_marked) return null;
  return html`
    <div class="wrong">
      ${turn.mark
        ? html`<p role="status" data-marked=${turn.mark}>Marked: ${turn.mark} would have been right.
            <button type="button" data-unmark disabled=${state.isSending} onClick=${judge(turn.tier)}>Take the mark back</button></p>`
        : html`<button type="button" data-wrong=${other} disabled=${state.isSending} onClick=${judge(other)}>This was wrong: ${other} would have been right</button>`}
      ${state.error && html`<p class="bad" role="alert">${state.error.message}</p>`}
    </div>`;
}

/** Where a turn changed its tier, each with the call that caused it. */
const Hops = ({ turn }) =>
  turn.hops.map(
    (hop) => html`<p data-hop-of=${hop.id}><${Hop} hop=${hop.hop} /> Moved ${hop.hop} to ${hop.hop === "up" ? "deep" : "fast"} with <a href=${link("turn", hop.id)}>call ${hop.call}</a>: ${hop.because}</p>`,
  );

const CALLS = [["Call"], ["Time"], ["Kind"], ["Served by"], ["What happened"], ["First token", "number"], ["Took", "number"], ["In → out", "number"], ["Cost", "number"]];

const Calls = ({ rows, id }) => html`
  <${Block} title="Its calls" kind="wide">
    <${Table} label="Calls of this turn, oldest first" head=${CALLS}>
      ${rows.map(
        (row, index) => html`<tr data-call=${row.id} data-row=${row.id} aria-current=${row.id === id ? "true" : undefined} onClick=${openRow(link("turn", row.id))}>
          <td><a data-row-link href=${link("turn", row.id)}>${index + 1}</a></td>
          <td class="number">${words.time(row.at)}</td>
          <td class="muted">${words.kind(row.turn_kind)}</td>
          <td><${Served} of=${row} /> ${row.target ?? ""}</td>
          <td class="says"><${Sentence} of=${row} /></td>
          ${numbers(words.milliseconds(row.ttft_ms), words.milliseconds(row.duration_ms), inOut(row.input_tokens, row.output_tokens), words.cost(row))}
        </tr>`,
      )}
    <//>
  <//>`;

function Job({ id }) {
  const answer = useAnswer(`/tandem/jobs/${encodeURIComponent(id)}`, { everyMs: 5000 });
  const job = answer.value;
  if (!job) return html`<p class="muted">A background job, <code>${id}</code>${answer.error?.status === 404 ? ", which is no longer kept" : ""}.</p>`;
  return html`<p data-of-job=${id}>A ${jobWords(job)}${job.title && html`: ${job.title}`} <${JobActions} job=${job} again=${answer.again} /> <code>${id}</code> <${Copy} text=${id} /></p>`;
}

function Place({ found, id }) {
  const { value, error } = useAnswer(found.session ? pathOfSession(found.session, found.caller) : null);
  if (!found.session) return null;
  const at = value?.rows.findIndex((row) => row.id === id) ?? -1;
  return html`
    <${Block} title="In its session" kind="wide">
      ${value && html`<${Strip} rows=${value.rows} marked=${id} />`}
      <p>${at >= 0 ? `Call ${at + 1} of ${value.rows.length}. ` : ""}<a href=${linkToSession(found.session, found.caller)}>Show the session</a></p>
      ${error && html`<p class="muted">${error.message}</p>`}
    <//>`;
}

const Unknown = ({ id, error }) => html`
  <div data-turn=${id}>
    <h1>No such turn</h1>
    <p>${error.message}</p>
    <p class="muted">Old ones are deleted with the ledger's rows (<code>ledger.keep_days</code>).${store.get().shared?.routers > 1 && " A call that another router served is in the ledger of that router."}</p>
  </div>`;

const Elsewhere = ({ turn }) => html`
  <div data-turn=${turn.id}>
    <div class="title"><h1><${Tier} tier=${turn.tier} /> <${Sentence} of=${turn} /></h1></div>
    <p data-elsewhere=${turn.replica}>Another router, ${turn.replica}, served this turn. The rest is in its ledger: open the page of that router.</p>
    <p class="muted id">${turn.id} <${Copy} text=${turn.id} /></p>
  </div>`;

/** Why a call went where it went. A call with tool results goes where its turn went. */
function Decision({ id, call, turn }) {
  const { value: found, error } = useAnswer(`/tandem/decisions/${encodeURIComponent(id)}${wantsWords ? "?words=1" : ""}`);
  if (error) return html`<p class="muted">${error.status === 404 ? "It was answered or refused before a tier was chosen." : error.message}</p>`;
  if (!found) return null;
  const isWeighed = found.decided_by === "estimate";
  return html`
    ${wantsWords && store.get().hello?.keeps_text && found.person_text && html`<blockquote data-words>${found.person_text}</blockquote>`}
    ${found.combined && html`<p data-combined>${found.combined}</p>`}
    ${id !== turn.id && html`<p data-of-turn=${turn.id}>${call.turn_kind === "tool_loop" ? "It carries tool results and belongs to a turn. " : ""}<a href=${link("turn", turn.id)}>Why its turn went where it went</a></p>`}
    <details data-why open=${call.outcome === "SERVED" && (isWeighed || id === turn.id)}>
      <summary>Why ${found.tier} was chosen: ${found.because}</summary>
      <div class="blocks">
        <${Evidence} found=${found} />
        <div class="pile"><${Estimates} found=${found} call=${call} />${isWeighed && html`<${Flip} found=${found} />`}</div>
      </div>
    </details>
    <${Attempts} found=${found} />`;
}

function Shown({ id, value, again }) {
  const { turn, rows } = value;
  const call = rows.find((row) => row.id === id) ?? rows[0];
  const scope = readScope(new URLSearchParams());
  const name = (of, of_value) => html`<${Name} view="turns" scope=${scope} of=${of} value=${of_value} />`;
  const isPart = rows.length > 1 && call.id !== turn.id;
  return html`
    <div data-turn=${turn.id} data-call-shown=${call.id}>
      <div class="title">
        <h1><${Served} of=${turn} /> <${Sentence} of=${turn} /></h1>
        <${Hops} turn=${turn} />
      </div>
      ${turn.job && html`<${Job} id=${turn.job} />`}
      <${Facts}
        of=${[
          ...(seesCallers() ? [["Person", name("caller", turn.caller)]] : []),
          ["Client", name("client", turn.client)],
          ["Began", words.time(turn.at), words.fullTime(turn.at)],
          ["Served by", turn.target ? name("target", turn.target) : "nobody"],
          ["First token", words.seconds(turn.first_seconds)],
          ["Took", words.seconds(turn.seconds), "all its calls together"],
          ["Of that, Tandem", words.milliseconds(rows.reduce((sum, row) => sum + (row.overhead_ms ?? 0), 0)), "what the router itself added"],
          ["Tokens in → out", inOut(turn.input_tokens, turn.output_tokens)],
          ["Cost", `${words.cost(turn)}${turn.cost_is_partial && turn.cost_usd != null ? "+" : ""}${words.worth(turn.list_usd, ", ")}`],
        ]}
      />
      <${Mark} turn=${turn} again=${again} />
      ${rows.length > 1 && html`<${Calls} rows=${rows} id=${call.id} />`}
      ${isPart && html`<h2>Call ${rows.indexOf(call) + 1}: <${Sentence} of=${call} /></h2>`}
      <${Decision} key=${call.id} id=${call.id} call=${call} turn=${turn} />
      <${Place} found=${turn} id=${call.id} />
      <p class="muted id">${call.id} <${Copy} text=${call.id} /></p>
    </div>`;
}

export default function Turn({ id }) {
  const known = useStore().turns.find((turn) => turn.id === id);
  const answer = useAnswer(known?.replica ? null : `/tandem/turns/${encodeURIComponent(id)}`);
  // A turn goes on: read it again when one of its calls has ended.
  useEffect(() => void (known && answer.value && known.calls > answer.value.turn.calls && setTimeout(answer.again, 500)), [known?.calls]);
  return html`
    <section data-view="turn">
      ${known?.replica
        ? html`<${Elsewhere} turn=${known} />`
        : answer.error?.status === 404
          ? html`<${Unknown} id=${id} error=${answer.error} />`
          : html`<${Answered} answer=${answer} what="the turn">${(value) => html`<${Shown} id=${id} value=${value} again=${answer.again} />`}<//>`}
    </section>`;
}

// Decision: why one call went where it went, and what came of it.

import { html, useState } from "../vendor/htm-preact.js";
import { Answered, Block, Facts, Head, inOut, linkToSession, numbers, pathOfSession, Tier } from "../parts.js";
import { Strip } from "../strip.js";
import { ask, store, useAnswer, useStore, wantsWords } from "../store.js";
import * as words from "../words.js";

const OTHER = { fast: "deep", deep: "fast" };
const PARTS = [
  ["wait", "in a queue, before it begins"],
  ["work", "on the turn itself"],
  ["redo", "doing it again after a wrong first answer: the chance of one, times what it costs"],
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

function Estimate({ tier, estimate, longest, isChosen }) {
  const wait = estimate.wait_seconds ?? 0;
  const redo = estimate.redo_seconds ?? 0;
  const parts = { wait, redo, work: Math.max(0, estimate.seconds - wait - redo) };
  const width = (part) => ({ width: `${((parts[part] / longest) * 100).toFixed(2)}%` });
  return html`
    <div class="estimate" data-estimate=${tier}>
      <div class="head"><${Tier} tier=${tier} /> <span>${estimate.target}</span>${isChosen && html`<span class="muted">chosen</span>`}
        <b class="number push">${words.seconds(estimate.seconds)}</b></div>
      <div class="stack" role="img" aria-label=${PARTS.map(([part]) => `${part} ${words.seconds(parts[part])}`).join(", ")}>
        ${PARTS.map(([part]) => html`<span class=${`part ${part} ${tier}`} data-part=${part} style=${width(part)}></span>`)}
      </div>
      <dl class="parts">
        ${PARTS.map(([part, meaning]) => html`<div title=${meaning}><dt><i class=${`part ${part} ${tier}`}></i>${part}</dt><dd class="number">${words.seconds(parts[part])}</dd></div>`)}
        <div title="what the target charges"><dt>price</dt><dd class="number">${words.usd(estimate.money_usd)}</dd></div>
        <div title="price, and what your time is worth"><dt>all in</dt><dd class="number">${words.usd(estimate.cost_usd)}</dd></div>
      </dl>
    </div>`;
}

function Estimates({ found }) {
  const tiers = Object.entries(found.estimates ?? {});
  const longest = Math.max(0.001, ...tiers.map(([, estimate]) => estimate.seconds));
  return html`
    <${Block} title="Expected time to done">
      ${tiers.length === 0 && html`<p class="muted">Nothing was weighed: ${decider(found)} decided.</p>`}
      ${tiers.map(([tier, estimate]) => html`<${Estimate} tier=${tier} estimate=${estimate} longest=${longest} isChosen=${tier === found.tier} />`)}
      ${found.redo && html`<p class="muted">A wrong first answer of fast: a chance of ${words.percent(found.redo.chance)}, ${words.seconds(found.redo.seconds)} to put right${found.redo.learned_turns ? `, learned from ${words.many(found.redo.learned_turns, "turn")}` : ", as assumed until turns have shown it"}.</p>`}
    <//>`;
}

function Flip({ found }) {
  const { score, fast_wait_seconds: wait } = found.flip ?? {};
  const sentences = [];
  if (typeof score === "number") sentences.push(html`<li>a chance of a long task ${found.score >= score ? "below" : "above"} <b class="number">${words.percent(score)}</b> (it was ${words.percent(found.score)})</li>`);
  if (typeof wait === "number") sentences.push(html`<li>a wait for fast ${found.tier === "fast" ? "over" : "under"} <b class="number">${words.seconds(wait)}</b></li>`);
  if (typeof found.margin_usd === "number") sentences.push(html`<li class="muted">the estimates were <b class="number">${words.usd(found.margin_usd)}</b> apart, time included</li>`);
  return html`
    <${Block} title=${`What would have sent it to ${OTHER[found.tier]}`} data-flip>
      ${sentences.length ? html`<ul>${sentences}</ul>` : html`<p class="muted">Nothing in the estimates: ${decider(found)} decided.</p>`}
    <//>`;
}

const Attempts = ({ found }) => html`
  <${Block} title="Attempts" kind="wide">
    ${found.queued?.map((item) => html`<p class="muted">Waited ${words.seconds(item.seconds)} for ${item.target}.</p>`)}
    ${found.attempts?.length
      ? html`<table class="small">
          <${Head} of=${[["Target"], ["Answer"], ["Took", "number"], ["In → out", "number"], ["Cost", "number"]]} />
          <tbody>${found.attempts.map(
            (attempt, index) => html`<tr data-attempt=${index}>
              <td>${attempt.target}${attempt.is_question ? html` <span class="muted">second opinion</span>` : null}</td>
              <td>${attempt.error ? html`<span class="bad">${attempt.status ?? ""} ${attempt.error}</span>` : (attempt.status ?? "no answer")}</td>
              ${numbers(words.seconds(attempt.seconds), inOut(attempt.usage?.input_tokens, attempt.usage?.output_tokens), words.usd(attempt.cost_usd))}
            </tr>`,
          )}</tbody>
        </table>`
      : html`<p class="muted">No target was called.</p>`}
    ${found.dropped?.length > 0 && html`<p class="muted">Left out on the way to the target: ${found.dropped.join(", ")}</p>`}
  <//>`;

function Wrong({ id, tier }) {
  const [state, setState] = useState({});
  const other = OTHER[tier];
  const mark = async () => {
    setState({ isSending: true });
    try {
      const { marked } = await ask(`/tandem/wrong/${encodeURIComponent(id)}`, { body: { tier: other } });
      setState(marked ? { isMarked: true } : { wentThere: true });
    } catch (error) {
      setState({ error });
    }
  };
  if (state.isMarked) return html`<p class="done" role="status" data-marked=${other}>Marked: ${other} would have been right. <code>tandem tune --apply</code> learns from it.</p>`;
  // A turn is judged by the tier that it began on; this call of it may have moved.
  if (state.wentThere) return html`<p class="done" role="status" data-went-there=${other}>This turn already went to ${other}, so it is not marked.</p>`;
  return html`
    <div class="wrong">
      <button type="button" data-wrong=${other} disabled=${state.isSending} onClick=${mark}>This was wrong: ${other} would have been right</button>
      ${state.error && html`<p class="bad" role="alert">${state.error.message}</p>`}
    </div>`;
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

const SecondOpinion = ({ opinion }) => html`
  <p class="muted">Second opinion of ${opinion.target}: ${opinion.answer ?? "none"}${opinion.because ? ` (${opinion.because})` : ""}.</p>`;

function Undecided({ id, error }) {
  const row = useStore().rows.find((known) => known.id === id);
  return html`
    <div data-decision=${id}>
      <h1>${row ? words.outcome(row.outcome) : "No decision"}</h1>
      <p>${row?.error ?? error.message}</p>
      <p class="muted">A request that is refused before a tier is chosen has no decision, and old ones are deleted with the ledger's rows (<code>ledger.keep_days</code>).${store.get().shared?.routers > 1 && " A call that another router served is in the ledger of that router."}</p>
    </div>`;
}

const Elsewhere = ({ row }) => html`
  <div data-decision=${row.id}>
    <div class="title"><h1><${Tier} tier=${row.tier} /> ${row.because ?? words.outcome(row.outcome)}</h1></div>
    <p data-elsewhere=${row.replica}>Another router, ${row.replica}, served this call. The rest is in its ledger: open the page of that router.</p>
    <p class="muted id">${row.id}</p>
  </div>`;

function Shown({ id, found }) {
  return html`
    <div data-decision=${id}>
      <div class="title">
        <h1><${Tier} tier=${found.tier} /> ${found.because}</h1>
        ${wantsWords && store.get().hello?.keeps_text && found.person_text && html`<blockquote data-words>${found.person_text}</blockquote>`}
        ${found.second_opinion && html`<${SecondOpinion} opinion=${found.second_opinion} />`}
      </div>
      <${Facts}
        of=${[
          ["Served by", found.served_by ?? words.NOTHING],
          ["Outcome", words.outcome(found.outcome)],
          ["Decided by", decider(found)],
          ["First token", words.milliseconds(found.ttft_ms)],
          ["Took", words.milliseconds(found.duration_ms)],
          ["Of that, Tandem", words.milliseconds(found.overhead_ms), "what the router itself added"],
          ["Prompt", `${words.count(found.prompt_tokens)} tokens`],
          ["Cost", words.usd(found.cost_usd)],
          ["Client", `${found.client ?? words.NOTHING}, ${words.kind(found.turn_kind)}`],
        ]}
      />
      <${Wrong} id=${id} tier=${found.tier} />
      <div class="blocks">
        <${Evidence} found=${found} />
        <div class="pile"><${Estimates} found=${found} /><${Flip} found=${found} /></div>
        <${Attempts} found=${found} />
        <${Place} found=${found} id=${id} />
      </div>
      <p class="muted id">${id}</p>
    </div>`;
}

export default function Decision({ id }) {
  const row = useStore().rows.find((known) => known.id === id);
  const answer = useAnswer(row?.replica ? null : `/tandem/decisions/${encodeURIComponent(id)}${wantsWords ? "?words=1" : ""}`);
  return html`
    <section data-view="decision">
      ${row?.replica
        ? html`<${Elsewhere} row=${row} />`
        : answer.error?.status === 404
        ? html`<${Undecided} id=${id} error=${answer.error} />`
        : html`<${Answered} answer=${answer} what="the decision">${(found) => html`<${Shown} id=${id} found=${found} />`}<//>`}
    </section>`;
}

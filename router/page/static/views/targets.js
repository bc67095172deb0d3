// Targets: how quick each is, now and over time, and what keeps it from serving.

import { html, useMemo } from "../vendor/htm-preact.js";
import { Answered, numbers, Table, Tier } from "../parts.js";
import { Plot } from "../plots.js";
import { addressOf, RANGES, readScope, ScopeBar } from "../scope.js";
import { useAnswer } from "../store.js";
import * as words from "../words.js";

const STATS_MS = 3000;
const SERIES_MS = 30000;

function stateOf(target) {
  if (target.left_alone_seconds > 0) return ["resting", `resting after failures, tried again in ${words.seconds(target.left_alone_seconds)}`];
  if (target.loading) return ["loading", "loading its model"];
  if (target.is_over_max_wait) return ["full", "its wait is over max_wait_seconds"];
  if (target.wait_seconds > 0) return ["waiting", target.wait_because ?? "a queue"];
  return ["open", "open"];
}

const Limit = ({ of, left, limit, resets }) => html`
  <li><span>${of}</span> <span class="number">${words.count(left)}${limit ? ` of ${words.count(limit)}` : ""} left</span>${resets != null && html` <span class="muted">resets in ${words.seconds(resets)}</span>`}</li>`;

const QUOTAS = [["requests_per_minute", "requests a minute"], ["tokens_per_minute", "tokens a minute"], ["in_flight", "at once"]];

function Limits({ target, quota }) {
  const own = QUOTAS.filter(([name]) => quota?.[name]?.limit != null);
  if (!own.length && !target.limits?.length) return html`<span class="muted">none known</span>`;
  return html`<ul class="plain">
    ${target.limits?.map((limit) => html`<${Limit} of=${limit.of} left=${limit.left} limit=${limit.limit} resets=${limit.resets_in_seconds} />`)}
    ${own.map(([name, label]) => html`<${Limit} of=${label} left=${Math.max(0, quota[name].limit - quota[name].used)} limit=${quota[name].limit} />`)}
  </ul>`;
}

const Row = ({ name, target, quota }) => {
  const [state, meaning] = stateOf(target);
  return html`
    <tr data-target=${name}>
      <td><b>${name}</b> <${Tier} tier=${target.tier} /></td>
      <td><span class=${`state ${state}`} data-state=${state}>${meaning}</span></td>
      ${numbers(target.in_flight ?? words.NOTHING, quota?.waiting ?? 0)}
      ${numbers(words.seconds(target.wait_seconds), words.seconds(target.ttft_seconds), words.whole(target.tokens_per_second))}
      <td><${Limits} target=${target} quota=${quota} /></td>
    </tr>`;
};

const HEAD = [
  ["Target"],
  ["State"],
  ["Running", "number"],
  ["Queue", "number", "requests that wait for its quota"],
  ["Wait", "number", "how long a new request would wait"],
  ["First token", "number", "expected now"],
  ["Tokens/s", "number", "expected now"],
  ["Limits"],
];

const Live = ({ stats }) => html`
  <${Table} label="Targets now" head=${HEAD}>${Object.entries(stats.targets).map(([name, target]) => html`<${Row} key=${name} name=${name} target=${target} quota=${stats.quotas?.[name]} />`)}<//>`;

/** One line for each target, in its tier's colour; `more` adds a faint one. */
function linesOf(targets, field, more) {
  const seen = {};
  return Object.entries(targets).flatMap(([label, target]) => {
    const order = (seen[target.tier] = (seen[target.tier] ?? -1) + 1);
    const line = { label, tier: target.tier, order, values: target[field] };
    return more ? [{ ...line, label: `${label} p95`, values: target[more], isFaint: true }, line] : [line];
  });
}

function Plots({ series, span, scope }) {
  const first = useMemo(() => linesOf(series.targets, "ttft_ms", "ttft_p95_ms"), [series]);
  const speed = useMemo(() => linesOf(series.targets, "tokens_per_second"), [series]);
  const sum = (values) => values.reduce((before, value) => before + value, 0);
  return html`
    <div class="plots">
      <${Plot} name="ttft" title="Time to first token (dotted: 95th percentile)" at=${series.at} lines=${first} format=${words.milliseconds} span=${span} />
      <${Plot} name="speed" title="Tokens a second" at=${series.at} lines=${speed} format=${words.whole} span=${span} />
    </div>
    <ul class="legend">${speed.map(
      ({ label, tier, order }) => html`<li key=${label}><i class=${`dash ${tier} ${order ? "second" : ""}`}></i><a href=${addressOf("turns", scope, { target: label })}>${label}</a> <span class="muted">${words.many(sum(series.targets[label].calls), "call")}, ${words.many(sum(series.targets[label].errors), "error")}</span></li>`,
    )}</ul>`;
}

export default function Targets({ query }) {
  const scope = { ...readScope(query), from: "", until: "", client: "", target: "", tier: "", outcome: "" };
  const stats = useAnswer("/tandem/stats", { everyMs: STATS_MS });
  const series = useAnswer(`/tandem/series?span=${scope.range}${scope.caller && `&caller=${encodeURIComponent(scope.caller)}`}`, { everyMs: SERIES_MS });
  return html`
    <section data-view="targets">
      <div class="tools"><h1>Targets</h1>
        <${ScopeBar} view="targets" scope=${scope} />
      </div>
      <${Answered} answer=${series} what="figures">${(found) => html`<${Plots} series=${found} span=${RANGES[scope.range][1]} scope=${scope} />`}<//>
      <h2>Now</h2>
      <${Answered} answer=${stats} what="targets">${(found) => html`<${Live} stats=${found} />`}<//>
    </section>`;
}

// Now: calls as they happen, and those before them.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { Calls, Choice, Failed, Loading } from "../parts.js";
import { ask, mergeRows, store, useAnswer, useStore, wantsWords } from "../store.js";
import * as words from "../words.js";

const PAGE = 100;
const JOBS_MS = 5000;
const MOST_JOBS = 3;
const ASKED_BY_PEOPLE = new Set(["ask", "follow_up"]);

/** What the key `p` does, while this view is shown. */
export const pause = { toggle: () => {} };

function pathOf(filter, before) {
  const query = new URLSearchParams({ limit: PAGE });
  if (filter.tier) query.set("tier", filter.tier);
  if (before) query.set("before", before);
  if (wantsWords) query.set("words", "1");
  return `/tandem/turns?${query}`;
}

function matches(call, filter) {
  if (filter.tier && call.tier !== filter.tier) return false;
  if (filter.kind === "asks" && !ASKED_BY_PEOPLE.has(call.turn_kind)) return false;
  if (!filter.text) return true;
  const { client, caller, session, turn_kind, tier, target, because, outcome, error, words: typed } = call;
  const told = [client, caller, session, turn_kind, tier, target, because, outcome, error, typed, call.id];
  return told.join(" ").toLowerCase().includes(filter.text.toLowerCase());
}

const addressOf = (filter) => {
  const query = new URLSearchParams(Object.entries(filter).filter(([, value]) => value));
  return `#/now${String(query) && `?${query}`}`;
};

/** The list from the ledger, joined to what the feed brings from now on. */
function useList(filter) {
  const [state, setState] = useState({ next: null, error: null, isLoading: true, older: [] });
  const load = async (before) => {
    setState((old) => ({ ...old, error: null, isLoading: true }));
    try {
      const { rows, next } = await ask(pathOf(filter, before));
      if (before) setState((old) => ({ next, error: null, isLoading: false, older: [...old.older, ...rows] }));
      else {
        store.set((known) => ({ rows: mergeRows(known.rows, rows), more: 0, missed: 0 }));
        setState({ next, error: null, isLoading: false, older: [] });
      }
    } catch (error) {
      setState((old) => ({ ...old, error, isLoading: false }));
    }
  };
  useEffect(() => void load(null), [filter.tier]);
  return { ...state, again: () => load(null), loadOlder: () => load(state.next) };
}

/** Hold the list as it is. It is read again when it runs on. */
function usePause(shown, again) {
  const [held, hold] = useState(null);
  pause.toggle = () => {
    if (held) again();
    hold(held ? null : shown);
  };
  useEffect(() => () => void (pause.toggle = () => {}), []);
  return [held, () => hold(held ?? shown)];
}

const Left = ({ more, missed, again }) =>
  more || missed
    ? html`<p class="strip" role="status">
        ${more ? html`<span data-more>and ${words.whole(more)} more</span> ` : null}
        ${missed ? html`<span data-missed>missed ${words.whole(missed)}</span> ` : null}
        <button type="button" data-again onClick=${again}>Read the list again</button>
      </p>`
    : null;

/** Background jobs that ended and were not collected. */
function Jobs() {
  const jobs = useAnswer("/tandem/stats", { everyMs: JOBS_MS }).value?.jobs ?? [];
  const more = jobs.length - MOST_JOBS;
  return jobs.length
    ? html`<div class="strip" role="status" data-jobs>
        ${jobs.slice(-MOST_JOBS).map(
          (job) => html`<p key=${job.id} data-job=${job.state}>
            Background job ${job.state} <span title=${words.fullTime(job.ended_at)}>${words.ago(job.ended_at)}</span>, not collected: <code>tandem jobs result ${job.id}</code>
          </p>`,
        )}
        ${more > 0 && html`<p>and ${words.whole(more)} more: <code>tandem jobs list</code></p>`}
      </div>`
    : null;
}

const Toolbar = ({ filter, isHeld, waiting }) => html`
  <div class="tools">
    <input
      type="search" data-filter id="filter" placeholder="Filter" aria-label="Filter the list" aria-keyshortcuts="/"
      value=${filter.text} onInput=${(event) => history.replaceState(null, "", addressOf({ ...filter, text: event.target.value })) || dispatchEvent(new Event("hashchange"))}
    />
    <${Choice} label="Tier" value=${filter.tier} options=${["", "fast", "deep"].map((tier) => [tier, tier || "both tiers", addressOf({ ...filter, tier })])} />
    <${Choice} label="Kind" value=${filter.kind} options=${[["", "all calls"], ["asks", "asked by people"]].map(([kind, label]) => [kind, label, addressOf({ ...filter, kind })])} />
    <button type="button" class="push" data-pause aria-pressed=${isHeld ? "true" : "false"} onClick=${() => pause.toggle()}>
      ${isHeld ? `Resume${waiting ? ` (${words.whole(waiting)} new)` : ""}` : "Pause"}
    </button>
  </div>`;

const Hint = () => html`
  <div class="empty" data-empty>
    <p>No calls yet. They appear here as they happen.</p>
    <p class="muted">Point a client at <code>${location.origin}/v1</code> with the model <code>auto</code>, or run <code>tandem connect</code>.</p>
  </div>`;

export function Now({ query }) {
  const filter = { tier: query.get("tier") ?? "", kind: query.get("kind") ?? "", text: query.get("text") ?? "" };
  const state = useStore();
  const list = useList(filter);
  const live = { rows: state.rows, running: state.running };
  const [held, hold] = usePause(live, list.again);
  const shown = held ?? live;
  const rows = [...shown.rows, ...list.older].filter((row) => matches(row, filter));
  const running = shown.running.filter((call) => matches(call, filter));
  const waiting = held ? state.rows.filter((row) => !held.rows.length || row.at > held.rows[0].at).length : 0;
  return html`
    <section data-view="now">
      <h1 class="unseen">Now</h1>
      <${Toolbar} filter=${filter} isHeld=${held !== null} waiting=${waiting} />
      ${wantsWords && state.hello && !state.hello.keeps_text &&
      html`<p class="strip">Words are not kept, so there are none to show. Set <code>ledger: {keep_text: true}</code> in the config to keep them.</p>`}
      <${Jobs} />
      <${Left} more=${state.more} missed=${state.missed} again=${list.again} />
      ${rows.length || running.length
        ? html`<${Calls} rows=${rows} running=${running} label="Calls, newest first" />`
        : list.isLoading
          ? html`<${Loading} what="calls" />`
          : !list.error && (filter.text || filter.tier || filter.kind ? html`<p class="empty" data-empty>No call matches this filter.</p>` : html`<${Hint} />`)}
      ${list.error && list.error.status !== 401 && html`<${Failed} error=${list.error} again=${list.again} />`}
      ${list.next && rows.length > 0 && html`<p class="after"><button type="button" data-older disabled=${list.isLoading} onClick=${() => hold() || list.loadOlder()}>Show older calls</button></p>`}
    </section>`;
}

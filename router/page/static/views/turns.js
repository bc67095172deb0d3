// Turns: what people asked, as it happens and before; and jobs, which are turns that nobody waits for.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { Choice, Failed, Loading, Turns as List } from "../parts.js";
import { addressOf, queryOf, RANGES, readScope, ScopeBar } from "../scope.js";
import { ask, mergeTurns, now, store, useAnswer, useStore, wantsWords } from "../store.js";
import * as words from "../words.js";

const PAGE = 50;
const JOBS_MS = 5000;
const RELOAD_MS = 1000;
const ASKED_BY_PEOPLE = new Set(["ask", "follow_up"]);

/** What the key `p` does, while this view is shown. */
export const pause = { toggle: () => {} };

const isWanted = (turn, { scope, kind, text }) => {
  if (["caller", "client", "target", "tier", "outcome"].some((name) => scope[name] && turn[name] !== scope[name])) return false;
  if (scope.until && turn.at >= Number(scope.until)) return false;
  return matches(turn, kind, text);
};

function matches(turn, kind, text) {
  if (kind === "asks" && !ASKED_BY_PEOPLE.has(turn.kind ?? turn.turn_kind)) return false;
  if (!text) return true;
  const { client, caller, session, tier, target, why, because, trouble, outcome, words: typed, job, id } = turn;
  return [client, caller, session, tier, target, why, because, trouble, outcome, typed, job, id].join(" ").toLowerCase().includes(text.toLowerCase());
}

/** The turns of the ledger that the scope asks for. */
function useList(scope) {
  const [state, setState] = useState({ turns: [], next: null, error: null, isLoading: true });
  const path = (before) => `/tandem/turns?${queryOf(scope, { limit: PAGE, before, words: wantsWords && "1" })}`;
  const load = async (before) => {
    setState((old) => ({ ...old, error: null, isLoading: true }));
    try {
      const { turns, next } = await ask(path(before));
      if (!before) store.set({ more: 0, missed: 0, isStale: false });
      setState((old) => ({ turns: before ? mergeTurns(old.turns, turns) : turns, next, error: null, isLoading: false }));
    } catch (error) {
      setState((old) => ({ ...old, error, isLoading: false }));
    }
  };
  const key = JSON.stringify(scope);
  useEffect(() => void load(null), [key]);
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
        ${more ? html`<span data-more>and ${words.whole(more)} more calls</span> ` : null}
        ${missed ? html`<span data-missed>missed ${words.whole(missed)} calls</span> ` : null}
        <button type="button" data-again onClick=${again}>Read the list again</button>
      </p>`
    : null;

const Toolbar = ({ scope, kind, text, isHeld, waiting }) => html`
  <div class="tools">
    <${ScopeBar} view="turns" scope=${scope} />
    <${Choice} label="Tier" value=${scope.tier} options=${["", "fast", "deep"].map((tier) => [tier, tier || "both tiers", addressOf("turns", scope, { tier, kind, text })])} />
    <${Choice} label="Kind" value=${kind} options=${[["", "all"], ["asks", "asked by people"]].map(([own, label]) => [own, label, addressOf("turns", scope, { kind: own, text })])} />
    <input
      type="search" data-filter id="filter" placeholder="Filter" aria-label="Filter the list" aria-keyshortcuts="/"
      value=${text} onInput=${(event) => history.replaceState(null, "", addressOf("turns", scope, { kind, text: event.target.value })) || dispatchEvent(new Event("hashchange"))}
    />
    <button type="button" class="push" data-pause aria-pressed=${isHeld ? "true" : "false"} onClick=${() => pause.toggle()}>
      ${isHeld ? `Resume${waiting ? ` (${words.whole(waiting)} new)` : ""}` : "Pause"}
    </button>
  </div>`;

const Hint = ({ range }) => html`
  <div class="empty" data-empty>
    <p>No turns in the last ${range}. They appear here as they happen.</p>
    <p class="muted">Point a client at <code>${location.origin}/v1</code> with the model <code>auto</code>, or run <code>tandem connect</code>.</p>
  </div>`;

/** A call under way as part of its turn: that of its session, where it carries tool results. */
function joinRunning(running, turns) {
  return running.map((call) => {
    const turn = call.turn_kind === "tool_loop" && turns.find((one) => one.caller === call.caller && one.session === call.session && ASKED_BY_PEOPLE.has(one.kind));
    return turn ? { ...call, turn } : call;
  });
}

/** Read the list again where the feed brought a call whose turn began before it. */
function useReload(isStale, again) {
  useEffect(() => {
    if (!isStale) return undefined;
    const timer = setTimeout(again, RELOAD_MS);
    return () => clearTimeout(timer);
  }, [isStale]);
}

export default function Turns({ query }) {
  const scope = readScope(query);
  const filter = { scope, kind: query.get("kind") ?? "", text: query.get("text") ?? "" };
  const state = useStore();
  const list = useList(scope);
  const jobs = useAnswer("/tandem/jobs?limit=50", { everyMs: JOBS_MS });
  const live = { turns: state.turns, running: state.running };
  const [held, hold] = usePause(live, list.again);
  const shown = held ?? live;
  useReload(state.isStale && !held, list.again);
  const known = new Set(list.turns.map((turn) => turn.id));
  const every = mergeTurns(list.turns, shown.turns.filter((turn) => known.has(turn.id) || isWanted(turn, filter)));
  const turns = every.filter((turn) => matches(turn, filter.kind, filter.text));
  const running = joinRunning(shown.running, every).filter((call) => isWanted(call, filter));
  const waiting = held ? state.turns.filter((turn) => !held.turns.length || turn.at > held.turns[0].at).length : 0;
  const isFiltered = filter.text || filter.kind || ["caller", "client", "target", "tier", "outcome", "from"].some((name) => scope[name]);
  const pending = (jobs.value?.data ?? []).filter((job) => !job.is_collected && (!job.ended_at || now() - job.ended_at < 86400) && !isFiltered);
  return html`
    <section data-view="turns">
      <h1 class="unseen">Turns</h1>
      <${Toolbar} ...${filter} isHeld=${held !== null} waiting=${waiting} />
      ${wantsWords && state.hello && !state.hello.keeps_text &&
      html`<p class="strip">Words are not kept, so there are none to show. Set <code>ledger: {keep_text: true}</code> in the config to keep them.</p>`}
      <${Left} more=${state.more} missed=${state.missed} again=${list.again} />
      ${turns.length || running.length || pending.length
        ? html`<${List} turns=${turns} running=${running} jobs=${pending} scope=${scope} again=${jobs.again} label="Turns, newest first" />`
        : list.isLoading
          ? html`<${Loading} what="turns" />`
          : !list.error && (isFiltered ? html`<p class="empty" data-empty>No turn matches this filter.</p>` : html`<${Hint} range=${RANGES[scope.range][0]} />`)}
      ${list.error && list.error.status !== 401 && html`<${Failed} error=${list.error} again=${list.again} />`}
      ${list.next && turns.length > 0 && html`<p class="after"><button type="button" data-older disabled=${list.isLoading} onClick=${() => hold() || list.loadOlder()}>Show older turns</button></p>`}
    </section>`;
}

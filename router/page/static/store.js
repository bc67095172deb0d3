// What the page knows, and how it asks the router: one store, one feed, one function for requests.

import { useEffect, useLayoutEffect, useState } from "./vendor/htm-preact.js";

const MAX_TURNS = 500;
const RETRY_MS = 2000;

let state = {
  needsLogin: false,
  connection: "connecting", // connecting | live | lost
  hello: null,
  turns: [], // those with a call that ended since the page was opened, newest first
  isStale: false, // whether the feed brought a call of a turn that began before it
  running: [], // begun and not over, newest first
  more: 0, // rows that the feed left out, since the list was read
  missed: 0, // rows that the feed lost, since the list was read
  notices: [],
  shared: null, // the routers whose calls are shown: {replica, routers, is_up}; null where there is one
  clockOffset: 0, // the router's clock minus this browser's, in seconds
};
const followers = new Set();

export const store = {
  get: () => state,
  set(change) {
    state = { ...state, ...(typeof change === "function" ? change(state) : change) };
    followers.forEach((follow) => follow());
  },
};

/** What the store holds; the component is drawn again when that changes. */
export function useStore() {
  const [, draw] = useState(0);
  // Not useEffect, which waits for a frame: a hello that came before it would be missed.
  useLayoutEffect(() => {
    const follow = () => draw((count) => count + 1);
    followers.add(follow);
    return () => followers.delete(follow);
  }, []);
  return state;
}

export const wantsWords = new URLSearchParams(location.search).has("words");

/** Whether the calls of several callers are shown here: to an admin, where keys are used. */
export const seesCallers = () => Boolean(store.get().hello?.admin && store.get().hello.keys);

/** Seconds since 1970 by the router's clock. */
export const now = () => Date.now() / 1000 + store.get().clockOffset;

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function readRefusal(response) {
  let message = `the router answered ${response.status}`;
  try {
    const body = await response.json();
    message = body.error?.message ?? body.message ?? message;
  } catch {
    // Not JSON: the status says enough.
  }
  return new Refused(response.status, message);
}

/** Send a request. Writes carry a header that no form of another page can send. A 401 shows the login form. */
export async function send(path, { body, signal, method } = {}) {
  const isWrite = body !== undefined || method === "POST";
  let response;
  try {
    response = await fetch(path, {
      method: isWrite ? "POST" : "GET",
      headers: isWrite ? { "content-type": "application/json", "x-tandem-page": "1" } : { accept: "application/json" },
      body: isWrite ? JSON.stringify(body ?? {}) : undefined,
      credentials: "same-origin",
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "the router does not answer");
  }
  if (response.ok) return response;
  const refusal = await readRefusal(response);
  if (response.status === 401 && path !== "/tandem/login") store.set({ needsLogin: true });
  throw refusal;
}

export const ask = async (path, options) => (await send(path, options)).json();

/** Ask for something and show it: `{value, error, isLoading, again}`. Asks again every `everyMs`, if given. */
export function useAnswer(path, { everyMs = 0 } = {}) {
  const [state, setState] = useState({ path, value: null, error: null, isLoading: true });
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (!path) return undefined;
    const control = new AbortController();
    let timer = 0;
    const load = async () => {
      try {
        const value = await ask(path, { signal: control.signal });
        setState({ path, value, error: null, isLoading: false });
      } catch (error) {
        if (control.signal.aborted) return;
        setState((old) => ({ path, value: old.path === path ? old.value : null, error, isLoading: false }));
      }
      if (everyMs && !control.signal.aborted) timer = setTimeout(load, everyMs);
    };
    load();
    return () => {
      control.abort();
      clearTimeout(timer);
    };
  }, [path, round, everyMs]);
  const known = state.path === path ? state : { value: null, error: null, isLoading: true };
  return { ...known, again: () => setRound((count) => count + 1) };
}

const byId = (list) => new Map(list.map((item) => [item.id, item]));

/** Put turns into a list: newest first, each once as it is now, and no more than the page can show. The feed does not know of marks. */
export function mergeTurns(turns, added) {
  const known = byId(turns);
  for (const turn of added) known.set(turn.id, { ...turn, mark: turn.mark ?? known.get(turn.id)?.mark ?? null });
  return [...known.values()].sort((one, other) => other.at - one.at).slice(0, MAX_TURNS);
}

/** Remember the mark of a turn that was marked here. */
export const markTurn = (id, mark) => store.set((state) => ({ turns: state.turns.map((turn) => (turn.id === id ? { ...turn, mark } : turn)) }));

function takeHello(hello) {
  store.set({
    hello,
    connection: "live",
    running: [...(hello.running ?? [])].sort((one, other) => other.at - one.at),
    notices: hello.notices ?? [],
    shared: hello.shared ?? null,
    clockOffset: typeof hello.now === "number" ? hello.now - Date.now() / 1000 : 0,
  });
}

function takeBatch(batch) {
  store.set((state) => {
    const over = byId(batch.rows ?? []);
    const ended = [...over.values()].filter((row) => row.turn).map((row) => ({ ...row.turn, replica: row.replica }));
    const known = byId(state.running);
    const begun = byId(batch.begun ?? []);
    // A call that moved to another target comes again: it keeps its place in the list.
    const running = [...begun.values()].filter((call) => !known.has(call.id)).reverse();
    running.push(...state.running.map((call) => begun.get(call.id) ?? call));
    // Where rows were left out, the end of a call may have been among them: the batch then lists what still runs.
    const isRunning = (call) => !over.has(call.id) && (batch.running?.includes(call.id) ?? true);
    return {
      connection: "live",
      turns: ended.length ? mergeTurns(state.turns, ended) : state.turns,
      isStale: state.isStale || ended.some((turn) => turn.kind === "tool_loop" && !turn.replica),
      running: running.filter(isRunning),
      more: state.more + (batch.more ?? 0),
      missed: state.missed + (batch.missed ?? 0),
      notices: batch.notices ?? state.notices,
      shared: batch.shared ?? state.shared,
    };
  });
}

let source = null;
let lastNumber = "";
let timer = 0;

/** Follow the feed. The browser reconnects by itself and says where it was; after a refusal this does. */
export function openFeed() {
  closeFeed();
  const query = new URLSearchParams();
  if (wantsWords) query.set("words", "1");
  if (lastNumber) query.set("after", lastNumber);
  source = new EventSource(`/tandem/feed${String(query) && `?${query}`}`);
  source.addEventListener("hello", (event) => takeHello(JSON.parse(event.data)));
  source.addEventListener("batch", (event) => {
    lastNumber = event.lastEventId || lastNumber;
    takeBatch(JSON.parse(event.data));
  });
  source.addEventListener("error", () => {
    store.set({ connection: "lost" });
    if (source?.readyState === EventSource.CLOSED) timer = setTimeout(reopenFeed, RETRY_MS);
  });
}

/** A refused feed does not say why: a request that does finds out whether a login is needed. */
async function reopenFeed() {
  try {
    await ask("/tandem/notices");
  } catch (error) {
    if (error.status === 401) return;
  }
  openFeed();
}

export function closeFeed() {
  clearTimeout(timer);
  source?.close();
  source = null;
}

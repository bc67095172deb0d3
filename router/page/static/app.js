// The live page. This file is its frame: addresses, menu, notices, login, theme, keys.
// tests/browser/conftest.py lists the ids and data attributes that tests rely on.

import { html, render, useEffect, useLayoutEffect, useState } from "./vendor/htm-preact.js";
import { listenToKeys, KEYS } from "./keys.js";
import { Command, Failed, Loading } from "./parts.js";
import { addressOf, readScope } from "./scope.js";
import { closeFeed, openFeed, seesCallers, send, store, useStore } from "./store.js";
import Today from "./views/today.js";
import { pause } from "./views/turns.js";
import * as words from "./words.js";

const TITLES = { today: "Today", turns: "Turns", sessions: "Sessions", savings: "Savings", targets: "Targets", callers: "Callers", turn: "Turn", session: "Session" };
/** Views that are not in the menu, and the one of the menu that leads to each. */
const UNDER = { turn: "turns", session: "sessions" };

function readAddress() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, ...rest] = path.split("/");
  const id = decodeURIComponent(rest.join("/"));
  return { view: view in TITLES ? view : "today", id, query: new URLSearchParams(query ?? "") };
}

function useAddress() {
  const [address, setAddress] = useState(readAddress);
  useLayoutEffect(() => {
    const follow = () => setAddress(readAddress());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return address;
}

function View({ address }) {
  const [loaded, setLoaded] = useState({ today: Today });
  const [error, setError] = useState(null);
  const { view, id, query } = address;
  useEffect(() => {
    document.title = view === "today" ? "Tandem" : `${TITLES[view]} · Tandem`;
    if (loaded[view]) return;
    setError(null);
    // What is not needed for the first paint is loaded when it is opened.
    import(`./views/${view}.js`).then(
      (module) => setLoaded((old) => ({ ...old, [view]: module.default })),
      () => setError(new Error("this view could not be loaded")),
    );
  }, [view]);
  useEffect(() => void (document.body.dataset.ready = "yes"), []);
  const Shown = loaded[view];
  if (Shown) return html`<${Shown} key=${`${view}/${id}`} id=${id} query=${query} />`;
  return error ? html`<${Failed} error=${error} again=${() => location.reload()} />` : html`<${Loading} what=${TITLES[view].toLowerCase()} />`;
}

function Login() {
  const [error, setError] = useState(null);
  const [isSending, setSending] = useState(false);
  const enter = async (event) => {
    event.preventDefault();
    setSending(true);
    try {
      await send("/tandem/login", { body: { key: event.target.elements.key.value.trim() } });
      store.set({ needsLogin: false, turns: [], running: [], more: 0, missed: 0 });
      openFeed();
    } catch (refusal) {
      setError(refusal.status === 401 ? "This key is not valid here." : refusal.message);
    }
    setSending(false);
  };
  return html`
    <section class="login" data-view="login">
      <h1>Log in</h1>
      <form id="login" onSubmit=${enter}>
        <label for="login-key">Key</label>
        <input id="login-key" name="key" type="password" autocomplete="current-password" required autofocus spellcheck="false" />
        ${error && html`<p class="bad" role="alert" data-login-error>${error}</p>`}
        <button type="submit" class="strong" disabled=${isSending}>Log in</button>
      </form>
      <p class="muted">This router needs a key. <code>tandem keys add NAME</code> makes one. You stay logged in for 12 hours.</p>
    </section>`;
}

async function logOut() {
  closeFeed();
  await send("/tandem/logout", { method: "POST" }).catch(() => {});
  store.set({ needsLogin: true, hello: null, turns: [], running: [], notices: [] });
}

const isDark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

function switchTheme() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("tandem.theme", theme);
  dispatchEvent(new Event("themechange"));
}

/** The scope of the view that was last shown with one: a turn has none, and the way back from it keeps the range. */
let lastScope = {};
const scopeOf = ({ view, query }) => (view in UNDER ? lastScope : (lastScope = readScope(query)));

const CONNECTIONS = { connecting: "connecting", live: "live", lost: "connection lost, trying again" };

const Bar = ({ state, view, scope, showKeys }) => html`
  <header class="bar">
    <a class="brand" href="#/today">Tandem</a>
    ${!state.needsLogin &&
    html`<nav class="menu" aria-label="Views">
      ${menu().map(
        (name) => html`<a key=${name} href=${addressOf(name, scope)} data-nav=${name} aria-current=${(UNDER[view] ?? view) === name ? "page" : undefined}>${TITLES[name]}</a>`,
      )}
    </nav>`}
    <div class="aside">
      ${!state.needsLogin && html`<span class="connection" data-connection=${state.connection} role="status">${CONNECTIONS[state.connection]}</span>`}
      <button type="button" class="icon" data-theme-switch title="Switch between light and dark (t)" aria-label="Switch between light and dark" onClick=${switchTheme}>◐</button>
      <button type="button" class="icon" data-keys-open title="Keys (?)" aria-label="Show the keys" onClick=${showKeys}>?</button>
      ${state.hello?.keys && html`<button type="button" data-logout title=${`logged in as ${state.hello.caller}`} onClick=${logOut}>Log out</button>`}
    </div>
  </header>`;

/** What a view can know where there are several routers: each keeps a ledger of its own. */
function Scope({ shared, view }) {
  if (!shared || view === "turn") return null;
  const { replica, routers, is_up: isUp } = shared;
  if (view === "turns" && !isUp) return html`<p class="scope" role="status" data-scope="alone">New turns are only those of this router, ${replica}: the others cannot be heard now.</p>`;
  if (routers < 2) return null;
  if (view === "turns") return html`<p class="scope" data-scope="all">Live from ${routers} routers. Turns from before you opened this page are those of ${replica}.</p>`;
  if (view === "targets") return html`<p class="scope" data-scope="ledger">Running calls and waits are those of all ${routers} routers. The plots are from the ledger of this one, ${replica}.</p>`;
  return html`<p class="scope" data-scope="ledger">From the ledger of this router, ${replica}. Each of the ${routers} routers keeps its own.</p>`;
}

const menu = () => Object.keys(TITLES).filter((name) => !(name in UNDER) && (name !== "callers" || seesCallers()));

const isCommand = (hint) => hint.startsWith("tandem ");

const Notices = ({ notices }) =>
  notices.length
    ? html`<div class="notices" role="status">
        ${notices.map(
          (notice) => html`<p key=${notice.kind + notice.subject} data-notice=${notice.kind}>
            <span>${notice.text}</span> ${notice.hint && (isCommand(notice.hint) ? html`<${Command} text=${notice.hint} />` : html`<span data-hint>${notice.hint}</span>`)}
            <span class="since" title=${words.fullTime(notice.since)}>${words.ago(notice.since)}</span>
          </p>`,
        )}
      </div>`
    : null;

function Keys({ hide }) {
  return html`
    <div class="veil" onClick=${(event) => event.target === event.currentTarget && hide()}>
      <div class="keys" role="dialog" aria-modal="true" aria-label="Keys" data-keys>
        <h2>Keys</h2>
        <dl>${KEYS.map(([key, meaning]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${meaning}</dd></div>`)}</dl>
        <button type="button" ref=${(button) => button?.focus()} onClick=${hide}>Close</button>
      </div>
    </div>`;
}

function App() {
  const address = useAddress();
  const state = useStore();
  const [showsKeys, setShowsKeys] = useState(false);
  useEffect(() => {
    let shown = showsKeys;
    return listenToKeys({
      showKeys: () => setShowsKeys(true),
      hideKeys: () => {
        const was = shown;
        shown = false;
        setShowsKeys(false);
        return was;
      },
      theme: switchTheme,
      pause: () => pause.toggle(),
      view: (index) => menu()[index] && (location.hash = addressOf(menu()[index], scopeOf(readAddress()))),
    });
  }, [showsKeys]);
  return html`
    <${Bar} state=${state} view=${address.view} scope=${scopeOf(address)} showKeys=${() => setShowsKeys(true)} />
    <${Notices} notices=${state.notices} />
    <main id="main">${state.needsLogin ? html`<${Login} />` : html`<${Scope} shared=${state.shared} view=${address.view} /><${View} address=${address} />`}</main>
    ${showsKeys && html`<${Keys} hide=${() => setShowsKeys(false)} />`}`;
}

const place = document.getElementById("app");
place.replaceChildren();
render(html`<${App} />`, place);
openFeed();

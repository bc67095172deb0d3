// Race: one prompt to both tiers at once, side by side.

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { Facts, link, Tier } from "../parts.js";
import { send } from "../store.js";
import * as words from "../words.js";

const SIDES = ["fast", "deep"];
const FRESH = { text: "", done: null, firstMs: null };

/** The events of a stream, as they come: [name, data]. */
async function* readEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let kept = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    kept += value;
    const blocks = kept.split("\n\n");
    kept = blocks.pop();
    for (const block of blocks) {
      const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(block) ?? [];
      if (data) yield [name, JSON.parse(data)];
    }
  }
}

function useRace() {
  const [state, setState] = useState({ isRunning: false, began: 0, error: null, fast: null, deep: null });
  const control = useRef(null);
  useEffect(() => () => control.current?.abort(), []);
  const change = (side, edit) => setState((old) => ({ ...old, [side]: edit(old[side] ?? FRESH) }));
  const take = (event, data, began) => {
    if (!SIDES.includes(data.side)) return;
    if (event === "piece") change(data.side, (old) => ({ ...old, text: old.text + data.text, firstMs: old.firstMs ?? performance.now() - began }));
    if (event === "done") change(data.side, (old) => ({ ...old, done: data }));
  };
  const go = async (input) => {
    const began = performance.now();
    control.current = new AbortController();
    setState({ isRunning: true, began, error: null, fast: FRESH, deep: FRESH });
    try {
      const response = await send("/tandem/race", { body: { input }, signal: control.current.signal });
      for await (const [event, data] of readEvents(response.body)) take(event, data, began);
      setState((old) => ({ ...old, isRunning: false }));
    } catch (error) {
      const message = error.name === "AbortError" ? null : error.message || "the race was cut off";
      setState((old) => ({ ...old, isRunning: false, error: message }));
    }
  };
  return { ...state, go, stop: () => control.current?.abort() };
}

function Watch({ began, isRunning, durationMs }) {
  const [at, setAt] = useState(0);
  useEffect(() => {
    if (!isRunning) return undefined;
    const timer = setInterval(() => setAt(performance.now() - began), 50);
    return () => clearInterval(timer);
  }, [isRunning, began]);
  const shown = durationMs ?? at;
  return html`<span class="watch number" data-watch>${(shown / 1000).toFixed(durationMs == null ? 1 : 2)} s</span>`;
}

function Side({ tier, side, race, other }) {
  const done = side?.done;
  const wins = done && !done.error && (other?.done ? other.done.error || done.duration_ms < other.done.duration_ms : race.isRunning);
  return html`
    <section class="lane" data-side=${tier} aria-label=${tier}>
      <div class="head"><${Tier} tier=${tier} /><span>${done?.target ?? ""}</span>${wins && html`<span class="muted">first</span>`}
        ${side && html`<${Watch} began=${race.began} isRunning=${race.isRunning && !done} durationMs=${done?.duration_ms ?? null} />`}</div>
      <div class="answer" data-answer role="region" tabindex="0" aria-label=${`answer of ${tier}`}>${side?.text}</div>
      ${done?.error && html`<p class="bad" role="alert">${done.error}</p>`}
      <div data-done=${done ? "yes" : undefined}>
        <${Facts}
          of=${[
            ["First token", words.milliseconds(done?.ttft_ms ?? side?.firstMs)],
            ["Tokens out", words.count(done?.output_tokens)],
            ["Cost", words.cost(done)],
            ...(done?.id ? [["Call", html`<a href=${link("turn", done.id)}>show</a>`]] : []),
          ]}
        />
      </div>
    </section>`;
}

export default function Race() {
  const race = useRace();
  const [input, setInput] = useState("");
  const start = (event) => {
    event?.preventDefault();
    if (input.trim() && !race.isRunning) race.go(input.trim());
  };
  return html`
    <section data-view="race">
      <h1>Race</h1>
      <form class="race" onSubmit=${start}>
        <label for="race-input">A prompt for both tiers at once. It counts as two requests, and both are paid for.</label>
        <textarea id="race-input" rows="3" value=${input} onInput=${(event) => setInput(event.target.value)} onKeyDown=${(event) => event.key === "Enter" && (event.metaKey || event.ctrlKey) && start(event)} placeholder="Explain what a bloom filter is good for"></textarea>
        <div class="tools">
          <button type="submit" class="strong" data-race-go disabled=${race.isRunning || !input.trim()}>Start</button>
          ${race.isRunning && html`<button type="button" data-race-stop onClick=${race.stop}>Stop</button>`}
          <span class="muted">Ctrl + Enter starts it</span>
        </div>
      </form>
      ${race.error && html`<p class="bad" role="alert">${race.error}</p>`}
      <div class="lanes">${SIDES.map((tier) => html`<${Side} key=${tier} tier=${tier} side=${race[tier]} other=${race[SIDES.find((own) => own !== tier)]} race=${race} />`)}</div>
    </section>`;
}

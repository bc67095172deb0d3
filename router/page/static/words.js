// Values as people read them. Pure functions: a value in, text out; "–" for what is not known.

export const NOTHING = "–";

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

export function seconds(value) {
  if (!isNumber(value)) return NOTHING;
  const size = Math.abs(value);
  if (size < 0.0005) return "0 s";
  if (size < 0.0995) return `${Math.round(value * 1000)} ms`;
  if (size < 9.95) return `${value.toFixed(size < 0.995 ? 2 : 1)} s`;
  if (size < 99.5) return `${Math.round(value)} s`;
  if (size < 3600) return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
  if (size < 86400) return `${Math.floor(value / 3600)} h ${Math.round((value % 3600) / 60)} min`;
  return `${(value / 86400).toFixed(1)} d`;
}

export const milliseconds = (value) => (isNumber(value) ? seconds(value / 1000) : NOTHING);

export function usd(value) {
  if (!isNumber(value)) return NOTHING;
  const size = Math.abs(value);
  const sign = value < 0 ? "−" : "";
  if (size === 0) return "$0";
  if (size < 0.00005) return `${sign}<$0.0001`;
  if (size < 0.01) return `${sign}$${size.toFixed(4)}`;
  if (size < 1) return `${sign}$${size.toFixed(3)}`;
  return `${sign}$${size.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}

/** What a call or a turn cost. A plan is paid elsewhere: its tokens cost nothing more. */
export const cost = (row) => (row?.billing === "plan" ? "plan" : usd(row?.cost_usd));

/** What plans paid for; empty without any. */
export const worth = (value, before = "") => (isNumber(value) && value > 0 ? `${before}worth ${usd(value)} at list price` : "");

export function count(value) {
  if (!isNumber(value)) return NOTHING;
  const size = Math.abs(value);
  if (size < 1000) return `${Math.round(value * 10) / 10}`;
  if (size < 9950) return `${(value / 1000).toFixed(1)}k`;
  if (size < 999500) return `${Math.round(value / 1000)}k`;
  return `${(value / 1e6).toFixed(size < 9.95e6 ? 1 : 0)}M`;
}

export const whole = (value) => (isNumber(value) ? Math.round(value).toLocaleString("en") : NOTHING);

export const percent = (value) => (isNumber(value) ? `${Math.round(value * 100)} %` : NOTHING);

const two = (number) => String(number).padStart(2, "0");

/** Hours and minutes. */
export function clock(at) {
  const date = new Date(at * 1000);
  return `${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** The time of day; with the date where that is not today. */
export function time(at) {
  if (!isNumber(at)) return NOTHING;
  const date = new Date(at * 1000);
  if (date.toDateString() === new Date().toDateString()) return `${clock(at)}:${two(date.getSeconds())}`;
  return `${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(at)}`;
}

export const fullTime = (at) => (isNumber(at) ? new Date(at * 1000).toLocaleString("en-GB") : "");

export function ago(at) {
  const passed = Date.now() / 1000 - at;
  if (passed < 60) return "just now";
  if (passed < 3600) return `${Math.floor(passed / 60)} min ago`;
  if (passed < 86400) return `${Math.floor(passed / 3600)} h ago`;
  return `${Math.floor(passed / 86400)} d ago`;
}

/** "3 turns", "1 turn". */
export const many = (number, one, more = `${one}s`) => `${whole(number)} ${number === 1 ? one : more}`;

const KINDS = {
  ask: "ask",
  follow_up: "follow-up",
  tool_loop: "tool results",
  side: "side request",
  compaction: "compaction",
  subagent: "subagent",
  prewarm: "prewarm",
};
export const kind = (value) => KINDS[value] ?? (value ? value.replaceAll("_", " ") : NOTHING);

/** A session's name: whole where it is short, else its beginning, or the end of a generated id. */
export function shortSession(session) {
  const name = (session ?? "").replace(/^[\w-]{1,20}:~?/, "");
  if (name.length <= 12) return name;
  return /^[\w-]*[\da-f]{8,}[\w-]*$/i.test(name) ? `…${name.slice(-4)}` : `${name.slice(0, 11)}…`;
}

/** A stretch of time, such as a bar of a plot. */
export function span(from, until) {
  const day = new Date(from * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  return until - from >= 86000 ? day : `${day} ${clock(from)} – ${clock(until)}`;
}

/** What happened, in one sentence: the trouble first, then why it went where it went. */
export const sentence = (turn) => [turn.trouble, turn.why ?? turn.because].filter(Boolean).join(": ");

/* Words and numbers: moments, durations, keys, states, and what holds a worker back. */
import { h } from "./elements.js";

const numbers = new Intl.NumberFormat("en");
export const num = (value) => numbers.format(value);
export const many = (count, one, more) => `${num(count)} ${count === 1 ? one : more || one + "s"}`;
export const enc = encodeURIComponent;
/** An address with a query, what is empty left out. */
export function withQuery(path, query) {
  const text = new URLSearchParams(
    Object.entries(query).filter(([, v]) => v !== "" && v !== undefined && v !== null),
  ).toString();
  return path + (text ? `?${text}` : "");
}

let clockAhead = 0; // of the server's clock, ms
export const now = () => Date.now() + clockAhead;
/** It is `at` by the server's clock. */
export function setClock(at) {
  clockAhead = at - Date.now();
}

/** A duration in ms as people say it. */
export function span(ms) {
  const s = Math.max(0, ms) / 1000;
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 10) return `${Number.isInteger(s) ? s : s.toFixed(1)} s`;
  if (s < 90) return `${Math.round(s)} s`;
  if (s < 5400)
    return `${Math.floor(s / 60)} min ${s < 600 && Math.round(s % 60) ? Math.round(s % 60) + " s" : ""}`.trim();
  if (s < 172800) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export const clockTime = (ms) => {
  const today = new Date(ms).toDateString() === new Date(now()).toDateString();
  const time = new Date(ms).toLocaleTimeString([], { hour12: false });
  return today
    ? time
    : `${new Date(ms).toLocaleDateString([], { weekday: "short", month: "short", day: "numeric" })}, ${time}`;
};

/** A moment that goes on being right: how long ago, or how long until. */
export function when(at, mode) {
  if (!at) return h("span", { class: "soft" }, "–");
  const ms = Date.parse(at);
  return h(
    "time",
    { datetime: at, title: new Date(ms).toLocaleString(), "data-ms": ms, "data-mode": mode || "ago" },
    said(ms, mode || "ago"),
  );
}

export function said(ms, mode) {
  const left = ms - now();
  if (mode === "in")
    return left > 500
      ? `in ${span(Math.round(left / 1000) * 1000)}`
      : left > -1500
        ? "now"
        : `${span(-left)} overdue`;
  if (mode === "for") return span(Math.max(1000, Math.round(-left / 1000) * 1000));
  if (mode === "until")
    return `${clockTime(ms)} (${left > 0 ? "in " + span(Math.round(left / 1000) * 1000) : "over"})`;
  return left > 1000
    ? `in ${span(Math.round(left / 1000) * 1000)}`
    : -left < 1000
      ? "just now"
      : `${span(Math.round(-left / 1000) * 1000)} ago`;
}

const STATE_COLOUR = {
  queued: "amber",
  executing: "blue",
  parked: "violet",
  completed: "green",
  failed: "red",
  cancelled: "",
  expired: "",
};
export const badge = (state) => h("span", { class: `badge ${STATE_COLOUR[state] || ""}` }, state);
export const keyText = (key) =>
  key === "" ? h("span", { class: "soft" }, "(no key)") : h("span", { class: "mono" }, clip(key, 120));
export const clip = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
/** An id's beginning and end: what tells a run from its kin stands last. */
const clipId = (id, most) => (id.length > most ? `${id.slice(0, most - 60)}…${id.slice(-59)}` : id);
export const ofKey = (key) =>
  key === null ? "all keys" : key === "" ? "runs without a key" : `key ${clip(key, 60)}`;
export const gateLink = (name, key, props) =>
  h("a", { href: `/ui/gates/${enc(name)}?key=${enc(key)}`, ...props }, clip(name, 120));
export const runLink = (id, props) =>
  h("a", { href: `/ui/runs/${enc(id)}`, class: "mono", ...props }, clipId(id, 120));
export const soft = (...text) => h("span", { class: "soft" }, ...text);

export const heldBack = (held) => (Array.isArray(held) ? held.map(limiterText).join("; ") : String(held));

/** What one limiter has against a worker, with its numbers. */
function limiterText(one) {
  if (!one || typeof one !== "object") return String(one);
  const { level, limitable, measure, value, limit } = one;
  if (measure === "os") {
    if (limitable === "mem") return `memory ${num(value)} % used, its limit is ${num(limit)} %`;
    if (/^cpu/.test(limitable))
      return `load over ${limitable.slice(3)} min is ${num(value / 256)} cores, its limit is ${num(limit / 256)}`;
    return `disk ${limitable.replace(/^disk[ :]*/, "")} ${num(value)} % used, its limit is ${num(limit)} %`;
  }
  if (measure === "concurrency")
    return `${num(value)} of ${num(limit)} ${limitable} at once, at level ${level}`;
  if (measure === "frequency")
    return `${num(value)} of ${num(limit)} ${limitable} in this time window, at level ${level}`;
  return one.text || String(measure);
}

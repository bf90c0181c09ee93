/* What has happened since the page was opened. */
import { now } from "./words.js";

const samples = new Map(); // what → samples {t, …}, one a second
const KEEP = 600;

function sample(what, values) {
  let list = samples.get(what);
  if (!list) {
    if (samples.size > 400) samples.delete(samples.keys().next().value);
    samples.set(what, (list = []));
  }
  list.push({ t: Math.round(now() / 1000), ...values });
  if (list.length > KEEP) list.shift();
}

export const gateId = (gate) => `gate ${gate.kind} ${gate.name}\n${gate.key}`;

/** Starts per second over the last five seconds that were seen; null before there are two readings. */
export function startsPerSecond(list, at) {
  const end = at === undefined ? list.length - 1 : at;
  const first = Math.max(0, end - 5);
  if (end <= first || !list[end] || list[end].t === list[first].t) return null;
  return Math.max(0, (list[end].starts - list[first].starts) / (list[end].t - list[first].t));
}

/** What was sampled of it, oldest first. */
export const seen = (what) => samples.get(what) || [];

let noted = ""; // of which view and second

/** Note the latest figures of a view, once a second, so that lines have a steady pace. */
export function note({ view, path }, data) {
  const mark = `${Math.round(now() / 1000)} ${view} ${path}`;
  if (mark === noted || !data) return;
  noted = mark;
  if (view === "overview") {
    const executing = Object.values(data.executing).reduce((a, b) => a + b, 0);
    sample("overview", { executing, queued: data.queued });
  } else if (view === "gates") data.items.forEach(sampleGate);
  else if (view === "gate") sampleGate(data.gate);
}

function sampleGate(gate) {
  sample(gateId(gate), { busy: gate.in_use, queued: gate.queued, starts: gate.starts });
}

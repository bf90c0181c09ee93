/* The operator's page. One file, no build. Everything that comes from a run is put on the page as text, never as HTML. */
"use strict";
(() => {

// ---------------------------------------------------------------- elements

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "rect", "path", "line", "circle", "g"]);

/** An element. Props: attributes; `on`: {event: handler}; `key`: identity among its siblings. */
function h(tag, props, ...children) {
  const el = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") el._on = value;
    else if (name === "key") el._key = String(value);
    else if (name === "value") { el.value = value; el.setAttribute("value", value); }
    else el.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(9)) {
    if (child === null || child === undefined || child === false) continue;
    el.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return el;
}

/** Make `old` look like `fresh` with as few changes as can be: focus, selection, charts and hovering survive. */
function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || old._key !== fresh._key) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  old._on = fresh._on;
  const typing = old === document.activeElement && /^(INPUT|SELECT|TEXTAREA)$/.test(old.nodeName);
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of [...fresh.attributes]) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (old.hasAttribute("data-keep")) return;
  morphChildren(old, fresh);
  if (!typing && "value" in fresh && /^(INPUT|SELECT)$/.test(old.nodeName) && old.value !== fresh.value) old.value = fresh.value;
}

function morphChildren(old, fresh) {
  const keyed = new Map();
  for (const child of old.childNodes) if (child._key !== undefined) keyed.set(child._key, child);
  let at = old.firstChild;
  for (const want of [...fresh.childNodes]) {
    const known = want._key === undefined ? undefined : keyed.get(want._key);
    if (known && known !== at) old.insertBefore(known, at);
    const here = known || at;
    if (!here) { old.append(want); continue; }
    const next = here.nextSibling;
    if (!known && want._key !== undefined) { old.insertBefore(want, here); continue; }
    morph(here, want);
    at = next;
  }
  while (at) { const next = at.nextSibling; at.remove(); at = next; }
}

for (const type of ["click", "submit", "input", "change"]) {
  document.addEventListener(type, (event) => {
    for (let el = event.target; el && el !== document; el = el.parentNode) {
      if (el._on && el._on[type]) {
        if (type === "submit") event.preventDefault();
        el._on[type](event);
        return;
      }
    }
  });
}

const $ = (selector) => document.querySelector(selector);

// ---------------------------------------------------------------- words and numbers

const numbers = new Intl.NumberFormat("en");
const num = (value) => numbers.format(value);
const many = (count, one, more) => `${num(count)} ${count === 1 ? one : more || one + "s"}`;
const enc = encodeURIComponent;

let clockAhead = 0; // of the server's clock, ms
const now = () => Date.now() + clockAhead;

/** A duration in ms as people say it. */
function span(ms) {
  const s = Math.max(0, ms) / 1000;
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 10) return `${Number.isInteger(s) ? s : s.toFixed(1)} s`;
  if (s < 90) return `${Math.round(s)} s`;
  if (s < 5400) return `${Math.floor(s / 60)} min ${s < 600 && Math.round(s % 60) ? Math.round(s % 60) + " s" : ""}`.trim();
  if (s < 172800) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

const clockTime = (ms) => {
  const today = new Date(ms).toDateString() === new Date(now()).toDateString();
  const time = new Date(ms).toLocaleTimeString([], { hour12: false });
  return today ? time : `${new Date(ms).toLocaleDateString([], { weekday: "short", month: "short", day: "numeric" })}, ${time}`;
};

/** A moment that goes on being right: how long ago, or how long until. */
function when(at, mode) {
  if (!at) return h("span", { class: "soft" }, "–");
  const ms = Date.parse(at);
  return h("time", { datetime: at, title: new Date(ms).toLocaleString(), "data-ms": ms, "data-mode": mode || "ago" }, said(ms, mode || "ago"));
}

function said(ms, mode) {
  const left = ms - now();
  if (mode === "in") return left > 500 ? `in ${span(Math.round(left / 1000) * 1000)}` : left > -1500 ? "now" : `${span(-left)} overdue`;
  if (mode === "for") return span(Math.max(1000, Math.round(-left / 1000) * 1000));
  if (mode === "until") return `${clockTime(ms)} (${left > 0 ? "in " + span(Math.round(left / 1000) * 1000) : "over"})`;
  return left > 1000 ? `in ${span(Math.round(left / 1000) * 1000)}` : -left < 1000 ? "just now" : `${span(Math.round(-left / 1000) * 1000)} ago`;
}

const STATE_COLOUR = { queued: "amber", executing: "blue", parked: "violet", completed: "green", failed: "red", cancelled: "", expired: "" };
const badge = (state) => h("span", { class: `badge ${STATE_COLOUR[state] || ""}` }, state);
const keyText = (key) => (key === "" ? h("span", { class: "soft" }, "(no key)") : h("span", { class: "mono" }, clip(key, 120)));
const clip = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
const ofKey = (key) => (key === null ? "all keys" : key === "" ? "runs without a key" : `key ${clip(key, 60)}`);
const gateLink = (name, key, props) => h("a", { href: `/ui/gates/${enc(name)}?key=${enc(key)}`, ...props }, clip(name, 120));
const runLink = (id, props) => h("a", { href: `/ui/runs/${enc(id)}`, class: "mono", ...props }, clip(id, 120));
const soft = (...text) => h("span", { class: "soft" }, ...text);

// ---------------------------------------------------------------- talking to the server

let session = null;

async function call(method, path, body) {
  const answer = await fetch(path, {
    method,
    headers: { "X-Pyrula-Page": "1", ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
    body: body === undefined ? undefined : JSON.stringify(body),
    credentials: "same-origin",
  });
  const value = await answer.json().catch(() => ({ detail: `the server answered ${answer.status}` }));
  if (!answer.ok) {
    if (answer.status === 401 && path !== "/ui/session") { session = null; start(); }
    throw Object.assign(new Error(value.detail || value.title), { status: answer.status });
  }
  return value;
}

/** connected: null until it is known; then whether the live view comes. */
let source = null, sourceAddress = "", connected = null, retryTimer = 0;
const PATIENCE = 2000; // ms of a first connection that need no word

function watch(view, query) {
  const address = `/ui/live?${new URLSearchParams({ view, ...Object.fromEntries(Object.entries(query).filter(([, v]) => v !== undefined && v !== null && v !== "")) })}`;
  if (address === sourceAddress && source) return;
  unwatch();
  sourceAddress = address;
  source = new EventSource(address);
  const mine = source;
  setTimeout(() => { if (mine === source && connected === null) setConnected(false, "connecting…"); }, PATIENCE);
  mine.addEventListener("hello", (event) => {
    clockAhead = JSON.parse(event.data).now - Date.now();
    setConnected(true);
  });
  mine.addEventListener("message", (event) => {
    if (mine !== source) return;
    state.problem = null;
    const got = JSON.parse(event.data);
    if (got.problem) state.problem = got.problem;
    else { state.data = got.view; state.at = now(); note(); }
    setConnected(true);
    draw();
  });
  mine.addEventListener("error", () => {
    if (mine !== source) return;
    setConnected(false);
    if (mine.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
    clearTimeout(retryTimer);
    retryTimer = setTimeout(async () => {
      if (mine !== source) return;
      unwatch();
      try { session = await call("GET", "/ui/session"); } catch (error) { session = null; if (!(error instanceof TypeError)) { start(); return; } }
      watch(view, query);
    }, 1500);
  });
}

function unwatch() {
  if (source) source.close();
  source = null;
  sourceAddress = "";
}

let lost = "reconnecting…";

function setConnected(is, word = "reconnecting…") {
  if (connected === is) return;
  [connected, lost] = [is, word];
  drawTop();
}

// ---------------------------------------------------------------- what has happened since the page was opened

const history = new Map(); // what → samples {t, …}, one a second
const KEEP = 600;

function sample(what, values) {
  let list = history.get(what);
  if (!list) { if (history.size > 400) history.delete(history.keys().next().value); history.set(what, (list = [])); }
  list.push({ t: Math.round(now() / 1000), ...values });
  if (list.length > KEEP) list.shift();
}

const gateId = (gate) => `gate ${gate.kind} ${gate.name}\n${gate.key}`;
const busy = (gate) => (gate.kind === "limit" ? gate.in_use : gate.burst === null ? 0 : gate.burst - gate.tokens);

/** Starts per second over the last five seconds that were seen; null before there are two readings. */
function startsPerSecond(list, at) {
  const end = at === undefined ? list.length - 1 : at;
  const first = Math.max(0, end - 5);
  if (end <= first || !list[end] || list[end].t === list[first].t) return null;
  return Math.max(0, (list[end].starts - list[first].starts) / (list[end].t - list[first].t));
}

/** Note the latest figures, once a second, so that lines have a steady pace. */
function note() {
  const last = Math.round(now() / 1000);
  if (note.last === last + route.view || !state.data) return;
  note.last = last + route.view;
  if (route.view === "overview") {
    const executing = Object.values(state.data.executing).reduce((a, b) => a + b, 0);
    sample("overview", { executing, queued: state.data.queued });
  } else if (route.view === "gates") {
    for (const gate of state.data.items) sample(gateId(gate), { busy: gate.in_use, queued: gate.queued, starts: gate.starts });
  } else if (route.view === "gate") {
    const gate = state.data.gate;
    sample(gateId(gate), { busy: gate.in_use, queued: gate.queued, starts: gate.starts });
  }
}

function spark(list, field, label) {
  const points = (list || []).slice(-90);
  const top = Math.max(1, ...points.map((point) => point[field]));
  const step = 96 / Math.max(1, Math.min(89, Math.max(29, points.length - 1)));
  const from = 96 - step * (points.length - 1);
  const path = points.map((point, i) => `${i ? "L" : "M"}${(from + i * step).toFixed(1)} ${(20 - (18 * point[field]) / top).toFixed(1)}`).join("");
  return h("svg", { class: "spark", viewBox: "0 0 96 22", role: "img", "aria-label": label },
    h("line", { x1: 0, y1: 21, x2: 96, y2: 21, stroke: "var(--line)" }),
    points.length > 1 && h("path", { d: path, fill: "none", stroke: "var(--amber)", "stroke-width": 1.5 }));
}

// ---------------------------------------------------------------- charts (uPlot)

const charts = new Map(); // element → {plot, kind}
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function chartBox(id, about) {
  return h("div", { class: "chart", key: id, id, "data-keep": true, role: "img", "aria-label": about });
}

function axes(seconds) {
  const font = "12px system-ui, sans-serif";
  const common = { stroke: () => css("--soft"), font, grid: { stroke: () => css("--line"), width: 1 }, ticks: { show: false } };
  return [
    { ...common, grid: { show: false }, size: 26, space: seconds ? 90 : 64, incrs: seconds ? [5, 10, 15, 30, 60, 120, 300] : [300, 600, 900, 1800], values: (u, times) => times.map((t) => new Date(t * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false, ...(seconds ? { second: "2-digit" } : {}) })) },
    { ...common, size: 46, space: 34, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6], values: (u, values) => values.map((v) => (v >= 1000 ? num(v / 1000) + "k" : num(v))) },
  ];
}

function chart(id, data, series, range, seconds) {
  const box = document.getElementById(id);
  if (!box || !box.clientWidth) return;
  let known = charts.get(box);
  if (!known) {
    known = { range };
    known.plot = new uPlot({
      width: box.clientWidth, height: 150, series: [{}, ...series], axes: axes(seconds), legend: { show: false },
      cursor: { show: false }, padding: [8, 34, 0, 0],
      scales: { y: { range: (u, low, high) => [0, Math.max(4, Math.ceil((high || 0) * 1.1))] }, x: { range: (u, low, high) => known.range(low, high) } },
    }, data, box);
    charts.set(box, known);
  } else {
    known.range = range;
    if (known.plot.width !== box.clientWidth) known.plot.setSize({ width: box.clientWidth, height: 150 });
    known.plot.setData(data);
  }
}

const line = (name, colour) => ({ label: name, stroke: () => colour(), width: 1.75, points: { show: false } });

function drawCharts() {
  for (const [box, { plot }] of charts) if (!box.isConnected) { plot.destroy(); charts.delete(box); }
  if (route.view === "overview" && state.data && state.data.minutes) {
    const minutes = state.data.minutes;
    const bars = uPlot.paths.bars({ size: [0.8, 40], align: 1 });
    const bar = (label, colour) => ({ label, paths: bars, fill: () => css(colour), stroke: () => css(colour), width: 0, points: { show: false } });
    chart("chart-minutes", [minutes.map((m) => m[0]), minutes.map((m) => m[1]), minutes.map((m) => m[2])],
      [bar("ended", "--bar-token"), bar("not completed", "--bar-full")], (low, high) => [low, high + 60]);
    lines("chart-now", "overview", [["executing", () => css("--bar"), (p) => p.executing], ["queued", () => "#d39a35", (p) => p.queued]]);
  }
  if (route.view === "gate" && state.data && state.data.gate) {
    const rate = state.data.gate.kind === "rate";
    const list = history.get(gateId(state.data.gate)) || [];
    lines("chart-gate", gateId(state.data.gate), [
      ...(rate ? [] : [["executing", () => css("--bar"), (p) => p.busy]]),
      ["queued", () => "#d39a35", (p) => p.queued],
      ["starts per second", () => css("--bar-token"), (p, i) => startsPerSecond(list, i) || 0],
    ]);
  }
}

function lines(id, what, series) {
  const list = history.get(what) || [];
  const end = Math.round(now() / 1000);
  chart(id, [list.map((p) => p.t), ...series.map(([, , value]) => list.map(value))], series.map(([name, colour]) => line(name, colour)),
    () => [Math.min(list.length ? list[0].t : end, end - 60), end], true);
}

addEventListener("resize", () => drawCharts());

// ---------------------------------------------------------------- pieces

function meter(used, most, label, kind) {
  const share = most > 0 ? Math.min(1, used / most) : 0;
  const cells = most <= 16 ? most : 0;
  const fill = kind === "token" ? "token" : share >= 1 ? "full" : "part";
  const rects = [];
  if (cells) for (let i = 0; i < cells; i++) rects.push(h("rect", { x: `${(100 * i) / cells + (i ? 0.6 : 0)}%`, y: 0, width: `${100 / cells - (i ? 0.6 : 0)}%`, height: 10, class: i < used ? fill : "rest" }));
  else rects.push(h("rect", { x: 0, y: 0, width: "100%", height: 10, class: "rest" }), h("rect", { x: 0, y: 0, width: `${100 * share}%`, height: 10, class: fill }));
  return h("svg", { class: "meter", role: "img", "aria-label": label }, rects);
}

function usage(gate) {
  if (gate.kind === "limit") {
    if (gate.max === null) return h("span", null, `${num(gate.in_use)} in use`);
    const text = `${num(gate.in_use)} of ${num(gate.max)} slots`;
    return h("div", { class: "used" }, meter(gate.in_use, gate.max, text + " in use"), h("span", { class: "small" }, text));
  }
  if (gate.burst === null) return soft("rate not known");
  const text = `${num(gate.tokens)} of ${num(gate.burst)} tokens`;
  return h("div", { class: "used" }, meter(gate.tokens, gate.burst, text + " left", "token"), h("span", { class: "small" }, text));
}

const shut = (gate) => gate.pauses.length > 0;

function nextStart(gate) {
  if (shut(gate)) return gate.pauses.map((p) => h("div", null, h("span", { class: "badge amber" }, p.by === "run" ? "RetryAfter" : "paused"), h("div", { class: "small" }, p.until ? [soft("ends "), when(p.until, "in")] : soft("until resumed"))));
  if (gate.kind === "rate" && gate.tokens === 0 && gate.next_start_at && Date.parse(gate.next_start_at) <= now() + 1000) return soft("within a second");
  if (gate.next_start_at) return Date.parse(gate.next_start_at) <= now() + 300 ? soft("open") : when(gate.next_start_at, "in");
  return soft("when a slot frees");
}

function numbersOf(gate) {
  return gate.kind === "limit" ? (gate.max === null ? "limit" : `at most ${num(gate.max)} at once`) : gate.per_second === null ? "rate" : `${num(gate.per_second)} per second, bursts of ${num(gate.burst)}`;
}

function overrideNote(gate) {
  const held = gate.override && (gate.override.limit || gate.override.rate);
  if (!held) return null;
  return h("span", { class: "small soft" }, "overridden", held.every_key ? " for all keys" : "", held.expires_at ? [", lapses ", when(held.expires_at, "in")] : ", until taken back");
}

function table(columns, rows, caption) {
  return h("table", { class: "rows", role: "table" },
    h("caption", { class: "hidden" }, caption),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map((c) => h("th", { role: "columnheader", scope: "col", class: [c.number ? "number" : "", c.roomy ? "roomy" : ""].join(" ").trim() || null }, c.name || h("span", { class: "hidden" }, "Action"))))),
    h("tbody", { role: "rowgroup" }, rows.map(({ key, cells }) => h("tr", { key, role: "row" }, cells.map((cell, i) =>
      h("td", { role: "cell", class: [columns[i].number ? "number" : "", columns[i].wide ? "wide" : "", columns[i].roomy ? "roomy" : "", cell === null ? "blank" : ""].join(" ").trim() || null, "data-label": columns[i].quiet ? null : columns[i].name }, cell))))));
}

const panel = (title, about, ...body) => h("section", { class: "panel", key: title },
  h("header", null, h("h2", null, title), about && h("span", { class: "small soft" }, about)), ...body);
const empty = (...text) => h("p", { class: "empty" }, ...text);

function pager() {
  const at = Number(route.query.cursor || 0);
  const stack = (route.query.back || "").split(".").filter(Boolean);
  if (!state.data.cursor && !route.query.cursor && !state.data.cut) return null;
  const next = state.data.cursor && { ...route.query, cursor: state.data.cursor, back: [...stack, route.query.cursor || "0"].slice(-20).join(".") };
  const back = stack.length ? { ...route.query, cursor: stack[stack.length - 1] === "0" ? "" : stack[stack.length - 1], back: stack.slice(0, -1).join(".") } : route.query.cursor ? { ...route.query, cursor: "", back: "" } : null;
  return h("div", { class: "pager" }, h("span", { class: "small soft" }, state.data.cut ? "This order ends here; there are more. Search, or order by name." : ""),
    h("div", null,
      back && h("a", { class: "button", href: address(route.path, back) }, "Back"),
      next && h("a", { class: "button", href: address(route.path, next) }, "Next")));
}

function address(path, query) {
  const text = new URLSearchParams(Object.entries(query).filter(([, v]) => v !== "" && v !== undefined && v !== null)).toString();
  return path + (text ? `?${text}` : "");
}

function filterBy(name) {
  return (event) => {
    clearTimeout(filterBy.timer);
    const value = event.target.value;
    const go_ = () => go(address(route.path, { ...route.query, [name]: value, cursor: "", back: "" }), true);
    if (event.type === "input") filterBy.timer = setTimeout(go_, 250); else go_();
  };
}

const field = (name, label, type, props) => h("label", { class: props && props.grow ? "grow" : null }, label, h("input", { type: type || "search", id: `filter-${name}`, value: route.query[name] || "", placeholder: props && props.hint, autocomplete: "off", spellcheck: "false", maxlength: 200, on: { input: filterBy(name) } }));

// ---------------------------------------------------------------- steering: asks first, and says what it will do

const mayTouch = () => session && session.access === "full";
const readOnly = "Your token is read-only: it may look, not touch.";

function act(label, handler, kind) {
  const may = mayTouch();
  return h("button", { type: "button", class: kind, disabled: !may, title: may ? null : readOnly, on: { click: handler } }, label);
}

/** Ask. fields: [{name, label, type, value, …}]; says(values) → lines; send(values) → promise; done: what to say afterwards. */
function ask({ title, fields, says, action, danger, send, done }) {
  const dialog = $("#dialog");
  const values = Object.fromEntries((fields || []).map((f) => [f.name, f.value]));
  let wrong = "", sending = false;
  const show = () => {
    const lines_ = says(values);
    morphChildren(dialog, h("dialog", null, h("form", { novalidate: true, on: { submit } },
      h("h2", { id: "dialog-title" }, title),
      (fields || []).length ? h("div", { class: fields.length > 1 ? "pair" : "" }, fields.map((f) => h("label", null, f.label,
        f.choices
          ? h("select", { name: f.name, on: { change: (e) => { values[f.name] = e.target.value; show(); } } }, f.choices.map(([value, text]) => h("option", { value, selected: value === values[f.name] }, text)))
          : h("input", { name: f.name, type: f.type || "text", inputmode: f.type === "number" ? "decimal" : null, min: f.min, step: f.step, value: values[f.name], on: { input: (e) => { values[f.name] = e.target.value; show(); } } })))) : null,
      h("div", { class: "says" }, lines_.map((text) => h("p", null, text))),
      wrong && h("p", { class: "wrong", role: "alert" }, wrong),
      h("div", { class: "end" },
        h("button", { type: "button", on: { click: () => dialog.close() } }, "Leave it"),
        h("button", { type: "submit", class: danger ? "danger" : "primary", disabled: sending }, action)))));
  };
  async function submit() {
    if (sending) return;
    sending = true; wrong = ""; show();
    try {
      const answer = await send(values);
      dialog.close();
      toast(typeof done === "function" ? done(answer) : done);
    } catch (error) { wrong = error.message; sending = false; show(); }
  }
  dialog.replaceChildren();
  show();
  if (!dialog.open) dialog.showModal();
  const first = dialog.querySelector("input, select") || dialog.querySelector("button[type=submit]");
  if (first) { first.focus(); if (first.select) first.select(); }
}

function toast(text) {
  const box = $("#toast");
  box.textContent = text;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => { box.textContent = ""; }, 5000);
}

const LASTS = [["600", "10 minutes"], ["3600", "1 hour"], ["28800", "8 hours"], ["86400", "1 day"], ["", "until taken back"]];
const lasting = (seconds) => (seconds ? `It lapses by itself at ${clockTime(now() + 1000 * seconds)}.` : "It holds until somebody takes it back, over deploys and restarts.");
const scope = (gate, every) => [["this", ofKey(gate.key)], ["every", "all keys of this gate"]].slice(0, every === false ? 1 : 2);
const keyOf = (gate, values) => (values.scope === "every" ? null : gate.key);

function askOverride(gate) {
  const limit = gate.kind === "limit";
  ask({
    title: `Override ${gate.name}`,
    fields: limit
      ? [{ name: "max", label: "Runs at once", type: "number", min: 1, step: 1, value: String((gate.max === null ? 1 : gate.max) + (gate.raise ? 1 : 0)) },
         { name: "lasts", label: "For", choices: LASTS, value: "600" },
         { name: "scope", label: "Of", choices: scope(gate), value: "this" }]
      : [{ name: "per_second", label: "Starts per second", type: "number", min: 0.000001, step: "any", value: String(gate.per_second === null ? 1 : gate.per_second) },
         { name: "burst", label: "Burst", type: "number", min: 1, step: 1, value: String(gate.burst === null ? 1 : gate.burst) },
         { name: "lasts", label: "For", choices: LASTS, value: "600" },
         { name: "scope", label: "Of", choices: scope(gate), value: "this" }],
    says: (v) => {
      const who = v.scope === "every" ? "all keys" : ofKey(gate.key);
      const first = limit
        ? `Lets ${num(Number(v.max) || 0)} at once through ${gate.name} for ${who}; now it is ${gate.max === null ? "as stamped" : num(gate.max)}.`
        : `Starts ${v.per_second} per second through ${gate.name} for ${who}, in bursts of ${v.burst}; now ${numbersOf(gate)}.`;
      const more = limit ? Math.max(0, Math.min(gate.queued, (Number(v.max) || 0) - gate.in_use)) : null;
      return [first,
        limit && v.scope === "this" ? (more ? `Up to ${many(more, "queued run")} ${more === 1 ? "starts" : "start"} at once, if nothing else holds ${more === 1 ? "it" : "them"}.` : Number(v.max) < gate.in_use ? `${num(gate.in_use)} execute now; none is stopped, and none starts until fewer than ${v.max} execute.` : "Nothing that waits starts by it alone.") : null,
        lasting(Number(v.lasts))].filter(Boolean);
    },
    action: "Override",
    send: (v) => call("POST", `/gates/${enc(gate.name)}/override`, {
      key: keyOf(gate, v), expires_in: v.lasts ? Number(v.lasts) : null,
      ...(limit ? { max: whole(v.max) } : { per_second: Number(v.per_second), burst: whole(v.burst) }),
    }),
    done: "Overridden.",
  });
}

const whole = (text) => { const n = Number(text); if (!Number.isInteger(n) || n < 1) throw new Error(`${text || "nothing"} is no whole number of at least 1`); return n; };

function askPause(gate) {
  ask({
    title: `Pause ${gate.name}`,
    fields: [{ name: "lasts", label: "For", choices: LASTS, value: "600" }, { name: "scope", label: "Of", choices: scope(gate), value: "this" }],
    says: (v) => [`Starts nothing through ${gate.name} for ${v.scope === "every" ? "all keys" : ofKey(gate.key)}. ${gate.in_use ? `${many(gate.in_use, "run")} that ${gate.in_use === 1 ? "executes goes" : "execute go"} on.` : "What executes goes on."}`, "Nothing is lost: runs stay queued.", v.lasts ? lasting(Number(v.lasts)) : "It holds until somebody resumes it."],
    action: "Pause", danger: true,
    send: (v) => call("POST", `/gates/${enc(gate.name)}/pause`, { key: keyOf(gate, v), seconds: v.lasts ? Number(v.lasts) : null }),
    done: "Paused.",
  });
}

function askResume(gate) {
  const every = gate.pauses.some((p) => p.every_key);
  ask({
    title: `Resume ${gate.name}`,
    fields: [{ name: "scope", label: "Of", choices: scope(gate), value: every ? "every" : "this" }],
    says: (v) => [`Ends the pause of ${gate.name} for ${v.scope === "every" ? "all keys" : ofKey(gate.key)}.`, gate.queued ? `${many(gate.queued, "run")} of this key ${gate.queued === 1 ? "waits" : "wait"}; they start as the gate lets them.` : "No run of this key waits here.", v.scope === "every" ? "A key that was paused by itself stays so." : null].filter(Boolean),
    action: "Resume",
    send: (v) => call("POST", `/gates/${enc(gate.name)}/resume`, { key: keyOf(gate, v) }),
    done: "Resumed.",
  });
}

function askTakeBack(held) {
  const pause = held.kind === "pause";
  ask({
    title: pause ? `Resume ${held.gate}` : `Take back the override of ${held.gate}`,
    says: () => [pause ? `Ends the pause of ${held.gate} for ${ofKey(held.key)}.` : `Runs of ${held.gate}, ${ofKey(held.key)}, go by what they were stamped with again. None that executes is stopped.`],
    action: pause ? "Resume" : "Take back",
    send: () => pause ? call("POST", `/gates/${enc(held.gate)}/resume`, { key: held.key }) : call("DELETE", `/gates/${enc(held.gate)}/override${held.key === null ? "" : `?key=${enc(held.key)}`}`),
    done: pause ? "Resumed." : "Taken back.",
  });
}

function askCancel(run, children) {
  const open = (children || []).filter((child) => !["completed", "failed", "cancelled", "expired"].includes(child.state)).length;
  ask({
    title: "Cancel this run?",
    says: () => [`${run.workflow} ${run.run_id} is ${run.state}.`, run.state === "executing" ? "Its body is told to stop; its slot is free once it has." : "It ends at once, and takes no slot or token.", open ? `Its ${many(open, "open child", "open children")} ${open === 1 ? "is" : "are"} cancelled with it.` : null, "Steps that are done stay done; Retry takes it up again from there."].filter(Boolean),
    action: "Cancel the run", danger: true,
    send: () => call("POST", `/runs/${enc(run.run_id)}/cancel`, {}),
    done: (answer) => (answer.accepted ? "Cancelled." : "It had ended already."),
  });
}

function askRetry(run) {
  ask({
    title: "Retry this run?",
    says: () => [`${run.workflow} ${run.run_id} goes back into its queue, as attempt ${run.attempt + (run.state === "parked" ? 0 : 1)}.`, "Steps that succeeded are not repeated. It waits for its gates as stamped."],
    action: "Retry",
    send: () => call("POST", `/runs/${enc(run.run_id)}/retry`, {}),
    done: (answer) => (answer.accepted ? "Queued again." : "It is not in a state to be retried."),
  });
}

function askFlush(buffer) {
  ask({
    title: `Flush ${buffer.workflow}`,
    says: () => [`Submits one run of ${buffer.workflow} with the ${many(buffer.count, "event")} of ${ofKey(buffer.key)} now, instead of waiting for its window.`, "The next event opens a new buffer."],
    action: "Flush",
    send: () => call("POST", `/buffers/${enc(buffer.workflow)}/flush`, { key: buffer.key }),
    done: (answer) => (answer.run_id ? `Submitted as ${answer.run_id}.` : "The buffer had fired already."),
  });
}

function askRestamp(workflow) {
  ask({
    title: `Restamp ${workflow}`,
    says: () => [`Gives every queued run of ${workflow} the current declaration: its gates, numbers and keys.`, "Runs that execute or are parked keep theirs."],
    action: "Restamp",
    send: () => call("POST", `/workflows/${enc(workflow)}/restamp`, {}),
    done: (answer) => `${many(answer.count, "run was", "runs were")} restamped.`,
  });
}

// ---------------------------------------------------------------- views

const views = {};

views.overview = (d) => {
  const executing = Object.values(d.executing).reduce((a, b) => a + b, 0);
  const parked = d.parked || {};
  const later = (parked.delay || 0) + (parked.later || 0);
  const waits = (parked.wait || 0) + (parked.retry || 0) + (parked.aside || 0);
  const alive = d.workers.filter((worker) => worker.alive);
  const hour = d.minutes.reduce((a, m) => a + m[1], 0), bad = d.minutes.reduce((a, m) => a + m[2], 0);
  const served = new Set(d.served);
  const orphans = [...new Set([...d.waiting, ...d.ready].map((w) => w.workflow))].filter((w) => !served.has(w));
  const blocked = [
    ...d.waiting.map((w) => ({ ...w, by: "gate" })),
    ...d.ready.map((w) => ({ ...w, by: served.has(w.workflow) ? "worker" : "nobody" })),
  ].sort((a, b) => b.runs - a.runs);
  if (d.not_looked_at) blocked.push({ workflow: "", by: "turn", runs: d.not_looked_at, since: null });
  return [
    h("div", { class: "title" }, h("div", null, h("h1", null, "Overview"))),
    !alive.length && h("p", { class: "banner bad" }, "No worker is alive: nothing starts. Start one with ", h("code", null, "pyrula worker MODULE"), "."),
    alive.length > 0 && orphans.length > 0 && h("p", { class: "banner" }, `No live worker serves ${orphans.slice(0, 5).join(", ")}: its runs stay queued until one does.`),
    h("div", { class: "vitals" },
      vital("Executing", executing, Object.entries(d.executing).sort((a, b) => b[1] - a[1]).slice(0, 3).map(([w, n]) => `${num(n)} ${w}`).join(", ") || "no body runs", "/ui/runs?state=executing"),
      vital("Queued", d.queued, d.queued ? "for the reasons below" : "nothing is queued", "/ui/runs?state=queued", d.queued_is_more),
      vital("Parked", waits, [parked.wait && `${num(parked.wait)} sleep or wait`, parked.retry && `${num(parked.retry)} back off`, parked.aside && `${num(parked.aside)} set aside`].filter(Boolean).join(", ") || "none sleeps or backs off", "/ui/runs?state=parked"),
      vital("Not due yet", later, later ? "delayed, or asked for later" : "none is delayed"),
      vital("Ended, last hour", hour, bad ? `${num(bad)} of them failed, cancelled or expired` : hour ? "all completed" : "none", bad ? "/ui/runs?state=failed" : "/ui/runs?state=completed", false, bad > 0 && bad * 20 > hour),
      vital("Workers alive", alive.length, `${many(alive.reduce((a, w) => a + w.executing, 0), "body", "bodies")} of ${num(alive.reduce((a, w) => a + (w.facts.max_concurrent_runs || 0), 0))} they may run`, "/ui/workers")),
    panel("What is queued, and for what", "runs by workflow and what holds them back; of each key up to 1,000 are counted",
      blocked.length ? table([{ name: "Workflow", quiet: true, wide: true }, { name: "Held back by", wide: true }, { name: "Runs", number: true }, { name: "Keys", number: true }, { name: "First in line for", number: true }],
        blocked.slice(0, 40).map((w) => ({ key: `${w.workflow} ${w.gate} ${w.kind} ${w.by}`, cells: [
          w.workflow ? h("a", { class: "row", href: `/ui/runs?state=queued&workflow=${enc(w.workflow)}` }, clip(w.workflow, 80)) : soft("all workflows"),
          blockedBy(w), num(w.runs), w.keys ? num(w.keys) : null, w.since ? when(w.since, "for") : null] })), "Queued runs by what holds them back")
        : empty("Nothing is queued.")),
    h("div", { class: "columns" },
      panel("Ended per minute", h("span", { class: "legend" }, h("span", { class: "c-green" }, "all"), h("span", { class: "c-red" }, "failed, cancelled, expired")),
        h("div", { class: "inner" }, chartBox("chart-minutes", `Runs that ended per minute in the last hour, ${num(hour)} in all, ${num(bad)} not completed`))),
      panel("Since you opened this page", h("span", { class: "legend" }, h("span", { class: "c-blue" }, "executing"), h("span", { class: "c-amber" }, "queued")),
        h("div", { class: "inner" }, chartBox("chart-now", `Executing, now ${num(executing)}, and queued, now ${num(d.queued)}, since this page was opened`)))),
    h("div", { class: "columns" },
      panel("Overrides and pauses in force", d.overrides.length ? many(d.overrides.length, "is", "are") + " in force" : null,
        d.overrides.length ? table([{ name: "Gate", quiet: true, wide: true }, { name: "Of" }, { name: "Holds" }, { name: "Lapses" }, { name: "", quiet: true }], d.overrides.map((o) => ({ key: `${o.gate}\n${o.key}\n${o.kind}`, cells: [
          h("a", { class: "row", href: `/ui/gates?name=${enc(o.gate)}` }, clip(o.gate, 80)), h("span", { class: "wrap" }, ofKey(o.key)), heldText(o), h("span", { class: "steady" }, o.expires_at ? when(o.expires_at, "in") : soft("by hand")),
          act(o.kind === "pause" ? "Resume…" : "Take back…", () => askTakeBack(o))] })), "Overrides and pauses") : empty("Everything goes by what was declared.")),
      panel("Latest failures", d.failed.length ? "newest first" : null,
        d.failed.length ? table([{ name: "Run", quiet: true, wide: true }, { name: "Workflow" }, { name: "Failed", number: true }], d.failed.map((r) => ({ key: r.run_id, cells: [runLink(r.run_id, { class: "mono row" }), clip(r.workflow, 60), when(r.finished_at)] })), "Latest failures") : empty("No failed run is kept."))),
  ];
};

function vital(name, value, about, href, more, bad) {
  return h(href ? "a" : "div", { class: "vital", href }, h("span", { class: "soft" }, name), h("b", { class: bad ? "bad" : null }, num(value) + (more ? "+" : "")), h("span", { class: "small" }, about));
}

function blockedBy(w) {
  if (w.by === "gate" && w.gate) return h("span", null, h("a", { href: `/ui/gates?name=${enc(w.gate)}` }, clip(w.gate, 80)), " ", soft(w.kind));
  if (w.by === "gate") return "a slot that its parent holds";
  if (w.by === "worker") return "no gate: it starts as soon as a worker has room";
  if (w.by === "nobody") return h("span", { class: "badge red" }, "no live worker serves it");
  return "no turn of a worker has looked at them yet";
}

const heldText = (o) => (o.kind === "pause" ? (o.open ? h("span", { class: "badge green" }, "let through") : h("span", { class: "badge amber" }, "paused")) : o.kind === "limit" ? `at most ${num(o.max)} at once` : `${num(o.per_second)} per second, bursts of ${num(o.burst)}`);

const SORTS = [["queued", "Most queued"], ["busy", "Most executing"], ["name", "Name"]];

views.gates = (d) => [
  h("div", { class: "title" }, h("div", null, h("h1", null, "Gates"), h("p", { class: "soft" }, "One counter for each key of a limit or a rate.")),
    h("div", { class: "filters" },
      field("search", "Name or key holds", "search", { grow: true }),
      field("name", "Gate is", "search"),
      h("label", null, "Order", h("select", { id: "filter-sort", on: { change: filterBy("sort") } }, SORTS.map(([value, text]) => h("option", { value, selected: (route.query.sort || "queued") === value }, text)))))),
  h("section", { class: "panel" },
    d.items.length ? table([{ name: "Gate", quiet: true, wide: true }, { name: "Key", wide: true }, { name: "In use" }, { name: "Queued", number: true }, { name: "Since opened", roomy: true }, { name: "Starts/s", number: true, roomy: true }, { name: "Next start" }, { name: "", quiet: true }],
      d.items.map((gate) => {
        const seen = history.get(gateId(gate)) || [];
        const starts = startsPerSecond(seen);
        return { key: gateId(gate), cells: [
          h("span", { class: "name" }, gateLink(clip(gate.name, 60), gate.key, { class: "row", href: `/ui/gates/${enc(gate.name)}?key=${enc(gate.key)}` }), " ", soft(gate.kind)), h("span", { class: "key" }, keyText(gate.key)), usage(gate),
          gate.queued ? h("b", null, num(gate.queued)) : soft("0"),
          spark(seen, "queued", `Queued since the page was opened, now ${num(gate.queued)}`),
          starts === null ? soft("…") : starts ? starts.toFixed(1) : soft("0"), h("span", { class: "steady" }, nextStart(gate)),
          act(shut(gate) ? "Resume…" : "Override…", () => (shut(gate) ? askResume(gate) : askOverride(gate)))] };
      }), "Gates")
      : empty(route.query.search || route.query.name ? "No gate is like that." : "No run with a limit or a rate has been looked at by a worker yet."),
    pager()),
];

views.gate = (d) => {
  const gate = d.gate;
  const seen = history.get(gateId(gate)) || [];
  const starts = startsPerSecond(seen);
  return [
    h("div", { class: "title" },
      h("div", null, h("p", { class: "soft small" }, h("a", { href: "/ui/gates" }, "Gates")), h("h1", null, gate.name, " ", h("span", { class: "badge" }, gate.kind)), h("p", { class: "wrap" }, soft("key "), keyText(gate.key))),
      h("div", { class: "actions" }, shut(gate) ? act("Resume…", () => askResume(gate), "primary") : act("Pause…", () => askPause(gate)), act("Override…", () => askOverride(gate)),
        gate.override && (gate.override.limit || gate.override.rate) && act("Take back…", () => askTakeBack({ gate: gate.name, kind: gate.kind, key: (gate.override.limit || gate.override.rate).every_key ? null : gate.key })))),
    h("section", { class: "panel", key: "numbers" }, h("div", { class: "inner", key: "in" }, h("dl", { class: "facts" },
      h("dt", null, gate.kind === "limit" ? "Slots" : "Tokens"), h("dd", null, usage(gate)),
      h("dt", null, "Lets in"), h("dd", null, numbersOf(gate), " ", overrideNote(gate)),
      h("dt", null, "Next start"), h("dd", null, nextStart(gate), gate.pauses.map((p) => h("div", { class: "small wrap" }, p.by === "run" ? [soft("closed by run "), runLink(p.run_id), soft(", which was told to come back later (RetryAfter)")] : soft(`paused by an operator, ${p.every_key ? "for all keys" : "for this key"}`)))),
      h("dt", null, "Queued"), h("dd", null, gate.queued ? many(gate.queued, "run") + " held back here" : "none is held back here"),
      h("dt", null, "Starts"), h("dd", null, starts === null ? "…" : `${starts.toFixed(1)} per second over the last 5 s, ${num(gate.starts)} since the gate is counted`)))),
    panel("Since you opened this page", h("span", { class: "legend" }, gate.kind === "limit" && h("span", { class: "c-blue" }, "executing"), h("span", { class: "c-amber" }, "queued"), h("span", { class: "c-green" }, "starts per second")),
      h("div", { class: "inner" }, chartBox("chart-gate", `Executing ${num(gate.in_use)}, queued ${num(gate.queued)}`))),
    h("div", { class: "columns" },
      gate.kind === "limit" && panel("Inside", many(d.holders.length, "run") + (gate.in_use > d.holders.length ? ` of ${num(gate.in_use)} shown` : " with a slot"), d.holders.length ? members(d.holders, "Runs with a slot") : empty("No run has a slot.")),
      panel("In line", d.waiters.length ? `first in line first${gate.queued > d.waiters.length ? `, ${num(d.waiters.length)} of ${num(gate.queued)}` : ""}` : null, d.waiters.length ? members(d.waiters, "Runs in line") : empty("No run waits here."))),
  ];
};

const members = (runs, caption) => table([{ name: "Run", quiet: true, wide: true }, { name: "Workflow" }, { name: "Priority", number: true }, { name: "Submitted", number: true }],
  runs.map((r) => ({ key: r.run_id, cells: [runLink(r.run_id, { class: "mono row" }), clip(r.workflow, 60), r.priority, when(r.submitted_at)] })), caption);

const RUN_STATES = ["", "queued", "executing", "parked", "completed", "failed", "cancelled", "expired"];

views.runs = (d) => [
  h("div", { class: "title" }, h("div", null, h("h1", null, "Runs"), h("p", { class: "soft" }, "Newest first.")),
    h("div", { class: "filters" }, field("workflow", "Workflow is", "search"), field("search", "Key is", "search"))),
  h("nav", { class: "chips", "aria-label": "State" }, RUN_STATES.map((s) => h("a", { href: address(route.path, { ...route.query, state: s, cursor: "", back: "" }), "aria-current": (route.query.state || "") === s ? "true" : null }, s || "all"))),
  h("section", { class: "panel" },
    d.items.length ? table([{ name: "Run", quiet: true, wide: true }, { name: "Workflow", quiet: true }, { name: "State", quiet: true }, { name: "Keys", roomy: true }, { name: "Submitted", number: true }, { name: "Took", number: true }, { name: "Worker", roomy: true }],
      d.items.map((r) => ({ key: r.run_id, cells: [
        runLink(r.run_id, { class: "mono row" }), h("span", { class: "wrap" }, clip(r.workflow, 80), r.attempt > 1 ? soft(` attempt ${r.attempt}`) : ""), badge(r.state),
        keysOf(r.keys), when(r.submitted_at), took(r), r.worker_id ? h("span", { class: "small wrap" }, clip(r.worker_id, 40)) : null] })), "Runs")
      : empty(state.data.cursor ? "None on this page: the filter leaves out 20,000 runs in a row. Next goes on." : "No run is like that."),
    pager()),
];

const keysOf = (keys) => {
  const texts = [...new Set(Object.values(keys))].filter((k) => k !== "");
  return texts.length ? h("span", { class: "mono small wrap" }, texts.map((k) => clip(k, 40)).join(", ")) : soft("–");
};

function took(r) {
  if (!r.started_at) return r.finished_at ? soft("never started") : soft("not started");
  if (r.finished_at) return span(Date.parse(r.finished_at) - Date.parse(r.started_at));
  return when(r.started_at, "for");
}

views.run = (d) => {
  const r = d.run;
  const over = ["completed", "failed", "cancelled", "expired"].includes(r.state);
  const retriable = ["failed", "cancelled", "expired"].includes(r.state) || d.why.reasons.some((x) => x.kind === "set_aside");
  return [
    h("div", { class: "title" },
      h("div", null, h("p", { class: "soft small" }, h("a", { href: "/ui/runs" }, "Runs"), d.parent && [" / child of ", runLink(d.parent)]), h("h1", null, clip(r.workflow, 120), " ", badge(r.state)), h("p", { class: "mono wrap" }, clip(r.run_id, 500))),
      h("div", { class: "actions" }, retriable && act("Retry…", () => askRetry(r)), !over && act("Cancel…", () => askCancel(r, d.children), "danger"))),
    whyPanel(d),
    h("div", { class: "columns" },
      h("section", { class: "panel", key: "facts" }, h("header", null, h("h2", null, "Facts")), h("div", { class: "inner" }, h("dl", { class: "facts" },
        h("dt", null, "Submitted"), h("dd", null, when(r.submitted_at)),
        h("dt", null, "Started"), h("dd", null, r.started_at ? [when(r.started_at), soft(`, after ${span(Date.parse(r.started_at) - Date.parse(r.submitted_at))}`)] : soft("not yet")),
        h("dt", null, over ? "Ended" : "Open for"), h("dd", null, over ? [when(r.finished_at), r.started_at && soft(`, took ${span(Date.parse(r.finished_at) - Date.parse(r.started_at))}`)] : when(r.submitted_at, "for")),
        h("dt", null, "Attempt"), h("dd", null, r.attempt),
        h("dt", null, "Priority"), h("dd", null, r.priority, soft(" (1 first, 5 last)")),
        h("dt", null, "Worker"), h("dd", null, r.worker_id || soft("–")),
        h("dt", null, "Gates"), h("dd", null, Object.keys(r.keys).length ? Object.entries(r.keys).map(([gate, key]) => h("div", null, gateLink(gate, key), " ", keyText(key))) : soft("none: nothing limits it"))))),
      panel(r.error ? "Error" : "Result", r.error && !over ? "of its last attempt" : null, h("div", { class: "inner" },
        r.error ? h("div", { class: "gap" }, h("p", null, h("b", null, clip(String(r.error.type || "error"), 200)), " ", clip(String(r.error.message || ""), 2000)), r.error.traceback && h("pre", { tabindex: 0, "aria-label": "Traceback" }, r.error.traceback))
          : r.state === "completed" ? json(r.result, "Result") : soft("It has none yet.")))),
    timeline(d),
    h("div", { class: "columns" },
      panel("Params", null, h("div", { class: "inner" }, json(r.params, "Params"))),
      d.children.length > 0 && panel("Children", d.children.length === 100 ? "the first 100" : many(d.children.length, "run"), table([{ name: "Run", quiet: true, wide: true }, { name: "Workflow" }, { name: "State" }], d.children.map((c) => ({ key: c.run_id, cells: [runLink(c.run_id, { class: "mono row" }), clip(c.workflow, 60), badge(c.state)] })), "Children"))),
  ];
};

function json(value, name) {
  let text = JSON.stringify(value, null, 2);
  const whole_ = text.length;
  if (whole_ > 20000) text = text.slice(0, 20000);
  return h("div", null, h("pre", { tabindex: 0, "aria-label": name }, text), whole_ > 20000 && h("p", { class: "small soft" }, `The first 20,000 of ${num(whole_)} characters.`));
}

function whyPanel(d) {
  const { why, run: r } = d;
  const over = ["completed", "failed", "cancelled", "expired"].includes(r.state);
  if (over && !why.reasons.length) return null;
  return h("section", { class: "panel why", key: "why" }, h("header", null, h("h2", null, over ? "What it holds up" : r.state === "executing" ? "Where it is" : "Why it is not executing")), h("div", { class: "inner" },
    h("ul", { class: "plain" },
      r.state === "executing" && h("li", { class: "reason" }, `Its body runs on worker ${r.worker_id}.`),
      why.reasons.map((reason, i) => h("li", { class: "reason", key: `${reason.kind} ${reason.gate || reason.name || ""} ${i}` }, reasonText(reason))),
      !why.reasons.length && r.state !== "executing" && h("li", { class: "reason" }, "Nothing is in its way: the next turn of a worker with room starts it."),
      why.place !== null && h("li", { class: "reason" }, h("span", null, "Place in line: ", h("b", null, typeof why.place === "number" ? num(why.place) : why.place), soft(" among the runs like it"), why.earliest_start && [". Earliest start ", when(why.earliest_start, "in"), "."])))));
}

function reasonText(x) {
  const gate = x.gate === "slot" || !x.gate ? null : { name: x.gate, key: x.key, kind: x.kind === "rate" ? "rate" : "limit" };
  const link = gate ? [gateLink(gate.name, gate.key), " for ", keyText(gate.key)] : "the slot that a run of its family holds";
  const look = gate && h("a", { class: "button", href: `/ui/gates/${enc(gate.name)}?key=${enc(gate.key)}` }, "Open the gate");
  switch (x.kind) {
    case "limit": return [
      h("div", { class: "top" }, h("span", null, x.in_use >= x.max ? h("b", null, "Full: ") : h("b", null, "Behind others: "), link), h("span", { class: "actions" }, gate && act("Raise the limit…", () => askOverride({ ...gate, kind: "limit", max: x.max, in_use: x.in_use, queued: 1, raise: true })), look)),
      h("div", { class: "used" }, meter(x.in_use, x.max, `${x.in_use} of ${x.max} in use`), h("span", { class: "small" }, `${num(x.in_use)} of ${num(x.max)} slots in use`)),
      x.holders.length > 0 && h("p", { class: "small" }, soft("held by "), x.holders.slice(0, 5).map((id, i) => [i ? ", " : "", runLink(id)]), x.holders.length > 5 ? soft(` and ${num(x.holders.length - 5)} more`) : "")];
    case "rate": return [h("div", { class: "top" }, h("span", null, h("b", null, x.tokens ? "Behind others: " : "Out of tokens: "), link), look), h("p", { class: "small" }, `${num(x.tokens)} of ${num(x.burst)} tokens, ${num(x.per_second)} more each second; the next comes `, when(x.next_token_at, "in"))];
    case "pause": return [h("div", { class: "top" }, h("span", null, h("b", null, x.by === "run" ? "Closed by RetryAfter: " : "Paused by an operator: "), link, x.every_key && ", all keys", x.until ? [", until ", when(x.until, "until")] : ", until somebody resumes it", x.by === "run" && [", as run ", runLink(x.run_id), " was told"]), h("span", { class: "actions" }, gate && act("Resume…", () => askResume({ ...gate, queued: 1, pauses: [x] })), look))];
    case "not_due": return h("span", null, h("b", null, x.backs_off ? "Backs off before its next attempt: " : "Not due: "), "starts ", when(x.until, "in"), x.error && soft(` after ${clip(String(x.error.type), 80)}: ${clip(String(x.error.message), 300)}`));
    case "no_worker": if (x.owner_of) return h("span", null, h("b", null, "No live worker "), `owns partition ${x.owner_of} for workflow ${x.workflow} yet: start one, or wait for the group to hand the partition over.`);
      return h("span", null, h("b", null, "No live worker "), `serves workflow ${x.workflow}: start one that has it.`);
    case "workers_held_back": return [h("span", null, h("b", null, "Every worker is held back "), "by its own limiters:"), h("p", { class: "small" }, x.workers.slice(0, 5).map((w) => h("div", null, `${w.worker_id}: ${heldBack(w.held_back)}`)))];
    case "partition_stopped": return h("span", { class: "held wrap" }, h("b", null, `Partition ${x.partition} has stopped at it: `), clip(x.why, 2000));
    case "set_aside": return h("span", null, h("b", null, "Set aside: "), clip(String((x.error && x.error.message) || "its replay met another step than its log holds"), 1000), ". Retry it, or deploy code that can replay its log.");
    case "waiting_for": return h("span", null, x.what === "sleep" ? [h("b", null, "Sleeps"), x.until && [", wakes ", when(x.until, "in")]] : x.what === "child" ? [h("b", null, "Waits for its child "), runLink(x.run_id), x.state && [" ", badge(x.state)], x.until && [", gives up ", when(x.until, "in")]] : [h("b", null, "Waits for the event "), h("code", null, clip(x.name, 120)), x.until && [", gives up ", when(x.until, "in")]]);
    default: return x.kind;
  }
}

const heldBack = (held) => (Array.isArray(held) ? held.map(limiterText).join("; ") : String(held));

/** What one limiter has against a worker, with its numbers. */
function limiterText(one) {
  if (!one || typeof one !== "object") return String(one);
  const { level, limitable, measure, value, limit } = one;
  if (measure === "os") {
    if (limitable === "mem") return `memory ${num(value)} % used, its limit is ${num(limit)} %`;
    if (/^cpu/.test(limitable)) return `load over ${limitable.slice(3)} min is ${num(value / 256)} cores, its limit is ${num(limit / 256)}`;
    return `disk ${limitable.replace(/^disk[ :]*/, "")} ${num(value)} % used, its limit is ${num(limit)} %`;
  }
  if (measure === "concurrency") return `${num(value)} of ${num(limit)} ${limitable} at once, at level ${level}`;
  if (measure === "frequency") return `${num(value)} of ${num(limit)} ${limitable} in this time window, at level ${level}`;
  return one.text || String(measure);
}

/** Steps and waits as bars from the first moment to the last. An entry began when the one before it in its branch was over. */
function timeline(d) {
  const r = d.run;
  const t0 = Date.parse(r.submitted_at);
  const end = Math.max(t0 + 1, r.finished_at ? Date.parse(r.finished_at) : now());
  const spans = [{ name: "in line", kind: "queued", from: t0, to: r.started_at ? Date.parse(r.started_at) : end, colour: "amber", open: !r.started_at && !r.finished_at }];
  const last = new Map();
  const start = r.started_at ? Date.parse(r.started_at) : t0;
  for (const s of d.steps) {
    const parent = s.branch.includes(".") ? s.branch.slice(0, s.branch.lastIndexOf(".")) : "";
    const from = last.get(s.branch) ?? last.get(parent) ?? start;
    const waiting = s.status === "waiting";
    const to = waiting ? end : Date.parse(s.at);
    if (s.kind !== "now" && s.kind !== "patch") spans.push({ ...s, from: Math.min(from, to), to, colour: s.status === "error" ? "red" : s.kind === "step" ? "blue" : "violet", open: waiting });
    if (!waiting) last.set(s.branch, to);
  }
  const whole_ = end - t0;
  const WORD = { step: "", sleep: "sleep", event: "event", child: "child", queued: "" };
  return panel("Timeline", `from submit ${r.finished_at ? "to end" : "until now"}: ${span(whole_)}`, h("div", { class: "timeline" },
    spans.slice(0, 200).map((s, i) => h("div", { class: "span", key: `${s.branch}/${s.number}/${i}` },
      h("span", { title: `${s.kind} ${s.name}` }, WORD[s.kind] && s.kind !== s.name ? soft(WORD[s.kind], " ") : "", s.run_id ? runLink(s.run_id) : clip(s.name, 80), s.branch ? soft(` ·${s.branch}`) : "", s.status === "error" ? [" ", h("span", { class: "badge red" }, "error")] : s.status === "timeout" ? [" ", h("span", { class: "badge amber" }, "timed out")] : ""),
      h("svg", { role: "img", "aria-label": `${clip(s.name, 80)}: ${span(s.from - t0)} to ${span(s.to - t0)}` }, h("rect", { x: 0, y: 0, width: "100%", height: 14, rx: 3, class: "ground" }), h("rect", { x: `${(100 * (s.from - t0)) / whole_}%`, y: 0, width: `${Math.max(0.4, (100 * (s.to - s.from)) / whole_)}%`, height: 14, rx: 3, class: s.colour })),
      h("span", { class: "number small soft" }, s.open ? [span(s.to - s.from), " so far"] : span(s.to - s.from)))),
    spans.length > 200 && empty(`${num(spans.length - 200)} more are not shown.`)));
}

views.buffers = (d) => [
  h("div", { class: "title" }, h("div", null, h("h1", null, "Buffers"), h("p", { class: "soft" }, "Events of Collect and Debounce that have not become a run yet, the one due first first.")),
    h("div", { class: "filters" }, field("workflow", "Workflow is", "search"), field("search", "Key holds", "search"))),
  h("section", { class: "panel" },
    d.items.length ? table([{ name: "Workflow", quiet: true, wide: true }, { name: "Key", wide: true }, { name: "Events" }, { name: "Opened", number: true }, { name: "Fires", number: true }, { name: "", quiet: true }],
      d.items.map((b) => ({ key: `${b.workflow}\n${b.key}`, cells: [
        h("span", { class: "wrap" }, h("a", { class: "row", href: `/ui/runs?workflow=${enc(b.workflow)}` }, clip(b.workflow, 80)), " ", soft(b.kind)), keyText(b.key),
        b.max_events ? h("div", { class: "used" }, meter(b.count, b.max_events, `${b.count} of ${b.max_events} events`), h("span", { class: "small" }, `${num(b.count)} of ${num(b.max_events)}`)) : many(b.count, "event"),
        when(b.opened_at), when(b.due_at, "in"), act("Flush…", () => askFlush(b))] })), "Buffers")
      : empty("No buffer holds an event."),
    pager()),
];

views.schedules = (d) => [
  h("div", { class: "title" }, h("div", null, h("h1", null, "Schedules"), h("p", { class: "soft" }, "One run for each tick, however many workers there are."))),
  h("section", { class: "panel" },
    d.items.length ? table([{ name: "Workflow", quiet: true, wide: true }, { name: "Schedule", wide: true }, { name: "Next tick" }, { name: "", quiet: true }],
      d.items.map((s) => ({ key: `${s.workflow} ${s.number}`, cells: [
        h("a", { class: "row", href: `/ui/runs?workflow=${enc(s.workflow)}` }, clip(s.workflow, 80)), scheduleText(s.schedule), when(s.next_at, "until"),
        h("a", { class: "button", href: `/ui/runs?workflow=${enc(s.workflow)}` }, "Its runs")] })), "Schedules")
      : empty("No workflow that a worker has registered has a schedule.")),
];

function scheduleText(s) {
  const params = s.params && Object.keys(s.params).length ? soft(" with ", h("code", null, clip(JSON.stringify(s.params), 120))) : "";
  if (s.cron) return h("span", { class: "wrap" }, h("code", null, s.cron), ` ${s.tz}`, params);
  const us = s.every_us;
  if (us) return h("span", { class: "wrap" }, `every ${span(us / 1000)}`, params);
  return h("code", { class: "wrap" }, clip(JSON.stringify(s), 200));
}

views.workers = (d) => [
  h("div", { class: "title" }, h("div", null, h("h1", null, "Workers"), h("p", { class: "soft" }, "Who may take runs, and what holds each back."))),
  h("section", { class: "panel" },
    d.items.length ? table([{ name: "Worker", quiet: true, wide: true }, { name: "State" }, { name: "Executing" }, { name: "Held back by", wide: true }, { name: "Serves", wide: true }, { name: "Since", number: true }],
      d.items.map((w) => ({ key: w.incarnation, cells: [
        h("span", { class: "wrap" }, h("b", null, clip(w.worker_id, 80)), w.facts.host ? soft(` on ${w.facts.host}, process ${w.facts.process}`) : ""),
        w.alive ? h("span", { class: "badge green" }, "alive") : h("span", { class: "badge red" }, "lapsed"),
        w.facts.max_concurrent_runs ? h("div", { class: "used" }, meter(w.executing, w.facts.max_concurrent_runs, `${w.executing} of ${w.facts.max_concurrent_runs}`), h("span", { class: "small" }, `${num(w.executing)} of ${num(w.facts.max_concurrent_runs)}`)) : num(w.executing),
        w.facts.held_back && w.facts.held_back.length ? h("span", { class: "held wrap" }, heldBack(w.facts.held_back)) : w.facts.max_concurrent_runs && w.executing >= w.facts.max_concurrent_runs ? "all its places are taken" : soft("nothing"),
        h("span", { class: "small wrap" }, w.serves.length > 8 ? `${w.serves.slice(0, 8).join(", ")} and ${w.serves.length - 8} more` : w.serves.join(", ")), when(w.started_at)] })), "Workers")
      : empty("No worker is registered. Start one with ", h("code", null, "pyrula worker MODULE"), ".")),
  streamsPanel(d.items.filter((w) => w.alive && (w.facts.streams || []).length)),
];

function streamsPanel(workers) {
  if (!workers.length) return null;
  const rows = workers.flatMap((w) => w.facts.streams.flatMap((s) => s.partitions.map((p) => ({ w, s, p }))));
  return panel("Streams", "what each worker owns, a second or two ago",
    table([{ name: "Partition", quiet: true }, { name: "Workflow", quiet: true }, { name: "Worker" }, { name: "State", wide: true }, { name: "Lag", number: true }, { name: "In flight", number: true }, { name: "Waiting", number: true }, { name: "Committed", number: true }],
      rows.map(({ w, s, p }) => ({ key: `${w.incarnation} ${s.workflow} ${p.partition}`, cells: [
        h("a", { class: "row", href: `/ui/runs?key=${enc(`${s.topic}/${p.partition}`)}` }, clip(`${s.topic}/${p.partition}`, 120)), clip(s.workflow, 80), clip(w.worker_id, 80),
        p.stopped ? h("span", { class: "wrap" }, h("span", { class: "badge red" }, "stopped"), " ", h("span", { class: "held" }, clip(p.stopped, 600))) : s.trouble ? h("span", { class: "wrap" }, h("span", { class: "badge red" }, "trouble"), " ", clip(s.trouble, 300)) : p.paused ? soft("paused: enough was read") : h("span", { class: "badge green" }, "consumed"),
        p.lag === null ? soft("unknown") : num(p.lag), num(p.in_flight), num(p.waiting), p.committed === null ? soft("nothing") : num(p.committed)] })), "Streams"));
}

views.workflows = (d) => [
  h("div", { class: "title" }, h("div", null, h("h1", null, "Workflows"), h("p", { class: "soft" }, "The newest declaration of each, as a worker registered it."))),
  h("section", { class: "panel" },
    d.items.length ? table([{ name: "Workflow", quiet: true, wide: true }, { name: "Served" }, { name: "Flow control", wide: true }, { name: "Registered", number: true }, { name: "", quiet: true }],
      d.items.map((w) => ({ key: w.workflow, cells: [
        h("a", { class: "row", href: `/ui/runs?workflow=${enc(w.workflow)}` }, clip(w.workflow, 80)),
        w.served ? h("span", { class: "badge green" }, "by a live worker") : h("span", { class: "badge red" }, "by nobody"),
        policies(w.declaration), when(w.registered_at), act("Restamp…", () => askRestamp(w.workflow))] })), "Workflows")
      : empty("No worker has registered a workflow yet.")),
];

function policies(x) {
  const parts = (x.gates || []).map((g) => h("div", null, h("a", { href: `/ui/gates?name=${enc(g.name)}` }, g.name), soft(Array.isArray(g.number) ? ` ${num(g.number[0] / g.number[1])} per second, bursts of ${num(g.number[2])}` : ` at most ${num(g.number)}`, ` per ${typeof g.key === "string" ? g.key : g.key === null ? "all" : "computed key"}`, g.hold === "run" ? ", held for the whole run" : "")));
  if (x.trigger) parts.push(h("div", null, x.trigger.kind === "collect" ? `collects ${num(x.trigger.max_events)} events or ${span(x.trigger.window_us / 1000)}` : `debounces ${span(x.trigger.window_us / 1000)}`, soft(` per ${x.trigger.key}`)));
  return parts.length ? h("div", { class: "small wrap" }, parts) : soft("none");
}

views.signIn = () => {
  const answer = { token: "" };
  return [h("section", { class: "panel sign-in" }, h("form", { on: { submit: async () => {
    try { session = await call("POST", "/ui/session", { token: document.getElementById("token").value.trim() }); state.problem = null; start(); }
    catch (error) { state.wrong = error.message; draw(); }
  } } },
    h("h1", null, "Sign in"), h("p", { class: "soft" }, "With a token of this server's token file. It is kept in a cookie that no script can read, for 12 hours."),
    h("label", null, "Token", h("input", { id: "token", type: "password", autocomplete: "current-password", required: true, value: answer.token })),
    state.wrong && h("p", { class: "banner bad", role: "alert" }, state.wrong),
    h("button", { type: "submit", class: "primary" }, "Sign in")))];
};

// ---------------------------------------------------------------- frame and routes

const NAV = [["overview", "Overview", "o", "/ui"], ["gates", "Gates", "g", "/ui/gates"], ["runs", "Runs", "r", "/ui/runs"], ["buffers", "Buffers", "b", "/ui/buffers"], ["schedules", "Schedules", "s", "/ui/schedules"], ["workers", "Workers", "w", "/ui/workers"], ["workflows", "Workflows", "f", "/ui/workflows"]];
const state = { data: null, problem: null, wrong: "", at: 0 };
let route = { view: "overview", path: "/ui", query: {} };

function parse() {
  const [, , view, name] = location.pathname.split("/");
  const query = Object.fromEntries(new URLSearchParams(location.search));
  if ((view === "gates" || view === "runs") && name) {
    const one = view === "gates" ? "gate" : "run";
    return { view: one, path: location.pathname, query, watch: { name: decodeURIComponent(name), ...(one === "gate" ? { key: query.key || "" } : {}) } };
  }
  const known = NAV.find(([id]) => id === view);
  const { back, ...asked } = query;
  return { view: known ? view : "overview", path: location.pathname, query, watch: asked };
}

function go(href, replace) {
  window.history[replace ? "replaceState" : "pushState"](null, "", href);
  arrive(!replace);
}

function arrive(moved) {
  const before = route;
  route = parse();
  if (before.view !== route.view || before.path !== route.path) { state.data = null; note.last = 0; }
  state.problem = null;
  drawTop();
  draw();
  const known = ["name", "key", "workflow", "state", "search", "sort", "cursor"];
  watch(route.view, Object.fromEntries(Object.entries(route.watch || {}).filter(([k]) => known.includes(k))));
  if (moved) { scrollTo(0, 0); $("#main").focus({ preventScroll: true }); }
}

function drawTop() {
  const current = { gate: "gates", run: "runs" }[route.view] || route.view;
  const theme = document.documentElement.dataset.theme || "";
  const fresh = h("header", { id: "top" }, h("div", { class: "bar-top" },
    h("a", { class: "brand", href: "/ui" }, h("svg", { viewBox: "0 0 32 32", "aria-hidden": "true" }, h("rect", { width: 32, height: 32, rx: 7, fill: "#0f766e" }), h("path", { d: "M7 9h18L18 17v6l-4 2v-8z", fill: "#fff" })), "pyrula"),
    session && h("nav", { "aria-label": "Views" }, NAV.map(([id, name, key, href]) => h("a", { href, "aria-current": current === id ? "page" : null, title: `g then ${key}` }, name))),
    h("div", { class: "tools" },
      session && h("span", { class: connected ? "status" : "status off", role: "status" }, connected !== null && h("i"), connected ? "live" : connected === null ? "" : lost),
      session && session.tokens && h("span", { class: "small soft" }, session.name, session.access === "read" ? ", read-only" : ""),
      h("button", { type: "button", class: "plain", title: "Light, dark, or as the system has it", on: { click: () => setTheme({ "": "dark", dark: "light", light: "" }[theme]) } }, { "": "Auto", dark: "Dark", light: "Light" }[theme], h("span", { class: "hidden" }, " theme")),
      session && h("button", { type: "button", class: "plain", title: "Keys", "aria-label": "Keyboard shortcuts", on: { click: keys } }, "?"),
      session && session.signed_in && h("button", { type: "button", class: "plain", on: { click: async () => { await call("DELETE", "/ui/session"); session = null; start(); } } }, "Sign out"))));
  morph($("#top"), fresh);
}

function draw() {
  const main = $("#main");
  let content;
  if (!session) content = views.signIn();
  else if (state.problem) content = [h("div", { class: "title" }, h("h1", null, "There is nothing to show")), h("p", { class: "banner" }, state.problem.detail)];
  else if (!state.data) content = [empty("Loading…")];
  else content = views[route.view](state.data);
  morphChildren(main, h("main", null, content));
  const name = !session ? "Sign in" : route.view === "run" || route.view === "gate" ? (route.watch.name || route.view) : (NAV.find(([id]) => id === route.view) || ["", "pyrula"])[1];
  document.title = `${clip(name, 60)} · pyrula`;
  drawCharts();
}

function setTheme(theme) {
  if (theme) { document.documentElement.dataset.theme = theme; localStorage.setItem("pyrula-theme", theme); }
  else { delete document.documentElement.dataset.theme; localStorage.removeItem("pyrula-theme"); }
  drawTop();
  for (const [, { plot }] of charts) plot.redraw();
}

function keys() {
  const dialog = $("#dialog");
  const rows = [["/", "search"], ["j  k", "next, previous row"], ["Enter", "open it"], ["g then …", NAV.map(([, name, key]) => `${key} ${name.toLowerCase()}`).join(", ")], ["t", "light, dark, as the system has it"], ["Esc", "close, leave a field"], ["?", "these keys"]];
  dialog.replaceChildren(h("form", { on: { submit: () => dialog.close() } }, h("h2", { id: "dialog-title" }, "Keys"),
    h("table", null, h("tbody", null, rows.map(([key, what]) => h("tr", null, h("td", null, h("kbd", null, key)), h("td", null, what))))),
    h("div", { class: "end" }, h("button", { type: "submit", class: "primary" }, "Close"))));
  dialog.showModal();
}

let pending = "";
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !session) return;
  const field_ = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.nodeName);
  if (field_) { if (event.key === "Escape" && !$("#dialog").open) event.target.blur(); return; }
  if ($("#dialog").open) return;
  const was = pending;
  pending = "";
  if (was === "g") {
    const target = NAV.find(([, , key]) => key === event.key);
    if (target) { event.preventDefault(); go(target[3]); }
    return;
  }
  const rows = [...document.querySelectorAll("a.row")];
  const at = rows.indexOf(document.activeElement);
  const actions = {
    g: () => { pending = "g"; },
    "/": () => { const box = $("#filter-search") || $("#filter-workflow"); if (box) box.focus(); else go("/ui/gates"); },
    j: () => rows.length && rows[Math.min(rows.length - 1, at + 1)].focus(),
    k: () => rows.length && rows[Math.max(0, at - 1)].focus(),
    t: () => setTheme({ "": "dark", dark: "light", light: "" }[document.documentElement.dataset.theme || ""]),
    "?": keys,
  };
  if (actions[event.key]) { event.preventDefault(); actions[event.key](); }
});

document.addEventListener("click", (event) => {
  const link = event.target.closest && event.target.closest("a[href^='/ui']");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  go(link.getAttribute("href"));
});
addEventListener("popstate", () => arrive(true));

setInterval(() => {
  for (const el of document.querySelectorAll("time[data-ms]")) {
    const text = said(Number(el.dataset.ms), el.dataset.mode);
    if (el.textContent !== text) el.textContent = text;
  }
  if (session && state.data && !document.hidden) {
    note();
    if (["overview", "gate"].includes(route.view)) drawCharts();
    if (["gates", "gate"].includes(route.view) || (route.view === "run" && !state.data.run.finished_at)) draw();
  }
}, 1000);

async function start() {
  unwatch();
  if (!session) {
    try { session = await call("GET", "/ui/session"); } catch (error) { session = null; if (error.status !== 401) state.wrong = error.message; }
  }
  if (session) { state.wrong = ""; state.data = null; arrive(false); }
  else { drawTop(); draw(); }
}

const theme = localStorage.getItem("pyrula-theme");
if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
start();

})();

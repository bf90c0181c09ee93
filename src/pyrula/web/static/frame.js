/* The frame around every view: the bar at the top, the theme, and which view is drawn. */
import { repaintCharts, sweepCharts } from "./charts.js";
import { $, h, morph, morphChildren } from "./elements.js";
import { showKeys } from "./keys.js";
import { empty } from "./pieces.js";
import { NAV, route } from "./route.js";
import { connected, lost, refusal, session, unsure } from "./server.js";
import { buffersView } from "./views/buffers.js";
import { gateCharts, gateView, gatesView } from "./views/gates.js";
import { overviewCharts, overviewView } from "./views/overview.js";
import { runView } from "./views/run.js";
import { runsView } from "./views/runs.js";
import { schedulesView } from "./views/schedules.js";
import { signInForm } from "./views/sign_in.js";
import { workersView } from "./views/workers.js";
import { workflowsView } from "./views/workflows.js";
import { clip } from "./words.js";
import * as shown from "./shown.js";

const VIEWS = {
  overview: overviewView,
  gates: gatesView,
  gate: gateView,
  runs: runsView,
  run: runView,
  buffers: buffersView,
  schedules: schedulesView,
  workers: workersView,
  workflows: workflowsView,
};
const CHARTS = { overview: overviewCharts, gate: gateCharts };
export const hasCharts = (view) => view in CHARTS;

let leave = null;
/** What Sign out does. */
export function onLeaving(act) {
  leave = act;
}

export function drawTop() {
  const current = { gate: "gates", run: "runs" }[route.view] || route.view;
  const theme = document.documentElement.dataset.theme || "";
  const fresh = h(
    "header",
    { id: "top" },
    h(
      "div",
      { class: "bar-top" },
      h(
        "a",
        { class: "brand", href: "/ui" },
        h(
          "svg",
          { viewBox: "0 0 32 32", "aria-hidden": "true" },
          h("rect", { width: 32, height: 32, rx: 7, fill: "#0f766e" }),
          h("path", { d: "M7 9h18L18 17v6l-4 2v-8z", fill: "#fff" }),
        ),
        "pyrula",
      ),
      session &&
        h(
          "nav",
          { "aria-label": "Views" },
          NAV.map(([id, name, key, href]) =>
            h("a", { href, "aria-current": current === id ? "page" : null, title: `g then ${key}` }, name),
          ),
        ),
      h(
        "div",
        { class: "tools" },
        session &&
          h(
            "span",
            { class: connected ? "status" : "status off", role: "status" },
            connected !== null && h("i"),
            connected ? "live" : connected === null ? "" : lost,
          ),
        session &&
          session.tokens &&
          h("span", { class: "small soft" }, session.name, session.access === "read" ? ", read-only" : ""),
        h(
          "button",
          {
            type: "button",
            class: "plain",
            title: "Light, dark, or as the system has it",
            on: { click: nextTheme },
          },
          { "": "Auto", dark: "Dark", light: "Light" }[theme],
          h("span", { class: "hidden" }, " theme"),
        ),
        session &&
          h(
            "button",
            {
              type: "button",
              class: "plain",
              title: "Keys",
              "aria-label": "Keyboard shortcuts",
              on: { click: showKeys },
            },
            "?",
          ),
        session &&
          session.signed_in &&
          h("button", { type: "button", class: "plain", on: { click: leave } }, "Sign out"),
      ),
    ),
  );
  morph($("#top"), fresh);
}

export function draw() {
  const main = $("#main");
  let content;
  if (!session && unsure)
    content = [h("p", { class: "banner bad" }, `The server does not answer (${refusal}). Trying again…`)];
  else if (!session) content = signInForm();
  else if (shown.problem)
    content = [
      h("div", { class: "title" }, h("h1", null, "There is nothing to show")),
      h("p", { class: "banner" }, shown.problem.detail),
    ];
  else if (!shown.data) content = [empty("Loading…")];
  else content = VIEWS[route.view](shown.data);
  morphChildren(main, h("main", null, content));
  const name = !session
    ? "Sign in"
    : route.view === "run" || route.view === "gate"
      ? route.watch.name || route.view
      : (NAV.find(([id]) => id === route.view) || ["", "No such page"])[1];
  document.title = `${clip(name, 60)} · pyrula`;
  drawCharts();
}

export function drawCharts() {
  sweepCharts();
  if (shown.data && route.view in CHARTS) CHARTS[route.view](shown.data);
}

/** A browser may forbid pages to keep anything: a theme then lasts as long as the page does. */
function stored(act) {
  try {
    return act(localStorage);
  } catch {
    return null;
  }
}

/** As this browser was told the last time. */
export function recallTheme() {
  const theme = stored((storage) => storage.getItem("pyrula-theme"));
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
}

/** Light, dark, or as the system has it: the next of the three. */
export function nextTheme() {
  setTheme({ "": "dark", dark: "light", light: "" }[document.documentElement.dataset.theme || ""]);
}

function setTheme(theme) {
  if (theme) {
    document.documentElement.dataset.theme = theme;
    stored((storage) => storage.setItem("pyrula-theme", theme));
  } else {
    delete document.documentElement.dataset.theme;
    stored((storage) => storage.removeItem("pyrula-theme"));
  }
  drawTop();
  repaintCharts();
}

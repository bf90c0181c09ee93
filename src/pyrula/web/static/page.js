/* The operator's page: ES modules, no build. What comes from a run is put on the page as text, never as HTML. */
import { $ } from "./elements.js";
import { draw, drawCharts, drawTop, hasCharts, nextTheme, onLeaving, recallTheme } from "./frame.js";
import { note } from "./history.js";
import { listenToKeys } from "./keys.js";
import { onArrival, readRoute, route } from "./route.js";
import { listen, session, signIn, signOut, unsure, unwatch, watch, whoLooks } from "./server.js";
import { onSignIn } from "./views/sign_in.js";
import { clip, said } from "./words.js";
import * as shown from "./shown.js";

function arrive(moved) {
  if (readRoute()) shown.forget();
  shown.forgetProblem();
  if (!route.view) {
    const detail = `There is no page at ${clip(route.path, 200)}; the bar above leads to those there are.`;
    shown.show({ problem: { detail } });
  }
  drawTop();
  draw();
  const known = ["name", "key", "workflow", "state", "search", "sort", "cursor"];
  watch(route.view, Object.fromEntries(Object.entries(route.watch || {}).filter(([k]) => known.includes(k))));
  if (moved) {
    scrollTo(0, 0);
    $("#main").focus({ preventScroll: true });
  }
}

const AGAIN = 1500; // ms until a server that could not be asked is asked again
let startTimer = 0;

async function start() {
  unwatch();
  await whoLooks();
  if (session) {
    shown.forget();
    arrive(false);
  } else {
    if ($("#dialog").open) $("#dialog").close(); // what it asked can't be done any more
    drawTop();
    draw();
    clearTimeout(startTimer);
    if (unsure) startTimer = setTimeout(start, AGAIN);
  }
}

onArrival(arrive);
listen({
  view: (got) => {
    shown.show(got);
    if (!shown.problem) note(route, shown.data);
    draw();
  },
  status: drawTop,
  signedOut: start,
});
onSignIn(async (token) => {
  if (await signIn(token)) start();
  else draw();
});
onLeaving(async () => {
  await signOut();
  start();
});
listenToKeys(nextTheme);
addEventListener("resize", drawCharts);

setInterval(() => {
  for (const el of document.querySelectorAll("time[data-ms]")) {
    const text = said(Number(el.dataset.ms), el.dataset.mode);
    if (el.textContent !== text) el.textContent = text;
  }
  if (session && shown.data && !document.hidden) {
    note(route, shown.data);
    if (hasCharts(route.view)) drawCharts();
    if (["gates", "gate"].includes(route.view) || (route.view === "run" && !shown.data.run.finished_at))
      draw();
  }
}, 1000);

recallTheme();
start();

/* The overview: what runs, what waits and for what. */
import { barChart, chartBox, css, lineChart } from "../charts.js";
import { h } from "../elements.js";
import { empty, panel, table } from "../pieces.js";
import { act, askTakeBack } from "../steering.js";
import { clip, enc, many, num, ofKey, runLink, soft, when } from "../words.js";

export const overviewView = (d) => {
  const executing = Object.values(d.executing).reduce((a, b) => a + b, 0);
  const parked = d.parked || {};
  const later = (parked.delay || 0) + (parked.later || 0);
  const waits = (parked.wait || 0) + (parked.retry || 0) + (parked.aside || 0);
  const alive = d.workers.filter((worker) => worker.alive);
  const hour = d.minutes.reduce((a, m) => a + m[1], 0),
    bad = d.minutes.reduce((a, m) => a + m[2], 0);
  const served = new Set(d.served);
  const orphans = [...new Set([...d.waiting, ...d.ready].map((w) => w.workflow))].filter(
    (w) => !served.has(w),
  );
  const blocked = [
    ...d.waiting.map((w) => ({ ...w, by: "gate" })),
    ...d.ready.map((w) => ({ ...w, by: served.has(w.workflow) ? "worker" : "nobody" })),
  ].sort((a, b) => b.runs - a.runs);
  if (d.not_looked_at) blocked.push({ workflow: "", by: "turn", runs: d.not_looked_at, since: null });
  return [
    h("div", { class: "title" }, h("div", null, h("h1", null, "Overview"))),
    !alive.length &&
      h(
        "p",
        { class: "banner bad" },
        "No worker is alive: nothing starts. Start one with ",
        h("code", null, "pyrula worker MODULE"),
        ".",
      ),
    alive.length > 0 &&
      orphans.length > 0 &&
      h(
        "p",
        { class: "banner" },
        `No live worker serves ${orphans.slice(0, 5).join(", ")}: its runs stay queued until one does.`,
      ),
    h(
      "div",
      { class: "vitals" },
      vital(
        "Executing",
        executing,
        Object.entries(d.executing)
          .sort((a, b) => b[1] - a[1])
          .slice(0, 3)
          .map(([w, n]) => `${num(n)} ${w}`)
          .join(", ") || "no body runs",
        "/ui/runs?state=executing",
      ),
      vital(
        "Queued",
        d.queued,
        d.queued ? "for the reasons below" : "nothing is queued",
        "/ui/runs?state=queued",
        d.queued_is_more,
      ),
      vital(
        "Parked",
        waits,
        [
          parked.wait && `${num(parked.wait)} sleep or wait`,
          parked.retry && `${num(parked.retry)} back off`,
          parked.aside && `${num(parked.aside)} set aside`,
        ]
          .filter(Boolean)
          .join(", ") || "none sleeps or backs off",
        "/ui/runs?state=parked",
      ),
      vital("Not due yet", later, later ? "delayed, or asked for later" : "none is delayed"),
      vital(
        "Ended, last hour",
        hour,
        bad ? `${num(bad)} of them failed, cancelled or expired` : hour ? "all completed" : "none",
        bad ? "/ui/runs?state=failed" : "/ui/runs?state=completed",
        false,
        bad > 0 && bad * 20 > hour,
      ),
      vital(
        "Workers alive",
        alive.length,
        `${many(
          alive.reduce((a, w) => a + w.executing, 0),
          "body",
          "bodies",
        )} of ${num(alive.reduce((a, w) => a + (w.facts.max_concurrent_runs || 0), 0))} they may run`,
        "/ui/workers",
      ),
    ),
    panel(
      "What is queued, and for what",
      "runs by workflow and what holds them back; of each key up to 1,000 are counted",
      blocked.length
        ? table(
            [
              { name: "Workflow", quiet: true, wide: true },
              { name: "Held back by", wide: true },
              { name: "Runs", number: true },
              { name: "Keys", number: true },
              { name: "First in line for", number: true },
            ],
            blocked.slice(0, 40).map((w) => ({
              key: `${w.workflow} ${w.gate} ${w.kind} ${w.by}`,
              cells: [
                w.workflow
                  ? h(
                      "a",
                      { class: "row", href: `/ui/runs?state=queued&workflow=${enc(w.workflow)}` },
                      clip(w.workflow, 80),
                    )
                  : soft("all workflows"),
                blockedBy(w),
                num(w.runs),
                w.keys ? num(w.keys) : null,
                w.since ? when(w.since, "for") : null,
              ],
            })),
            "Queued runs by what holds them back",
          )
        : empty("Nothing is queued."),
    ),
    h(
      "div",
      { class: "columns" },
      panel(
        "Ended per minute",
        h(
          "span",
          { class: "legend" },
          h("span", { class: "c-green" }, "all"),
          h("span", { class: "c-red" }, "failed, cancelled, expired"),
        ),
        h(
          "div",
          { class: "inner" },
          chartBox(
            "chart-minutes",
            `Runs that ended per minute in the last hour, ${num(hour)} in all, ${num(bad)} not completed`,
          ),
        ),
      ),
      panel(
        "Since you opened this page",
        h(
          "span",
          { class: "legend" },
          h("span", { class: "c-blue" }, "executing"),
          h("span", { class: "c-amber" }, "queued"),
        ),
        h(
          "div",
          { class: "inner" },
          chartBox(
            "chart-now",
            `Executing, now ${num(executing)}, and queued, now ${num(d.queued)}, since this page was opened`,
          ),
        ),
      ),
    ),
    h(
      "div",
      { class: "columns" },
      panel(
        "Overrides and pauses in force",
        d.overrides.length ? many(d.overrides.length, "is", "are") + " in force" : null,
        d.overrides.length
          ? table(
              [
                { name: "Gate", quiet: true, wide: true },
                { name: "Of" },
                { name: "Holds" },
                { name: "Lapses" },
                { name: "", quiet: true },
              ],
              d.overrides.map((o) => ({
                key: `${o.gate}\n${o.key}\n${o.kind}`,
                cells: [
                  h("a", { class: "row", href: `/ui/gates?name=${enc(o.gate)}` }, clip(o.gate, 80)),
                  h("span", { class: "key" }, ofKey(o.key)),
                  heldText(o),
                  h("span", { class: "steady" }, o.expires_at ? when(o.expires_at, "in") : soft("by hand")),
                  act(o.kind === "pause" ? "Resume…" : "Take back…", () => askTakeBack(o)),
                ],
              })),
              "Overrides and pauses",
            )
          : empty("Everything goes by what was declared."),
      ),
      panel(
        "Latest failures",
        d.failed.length ? "newest first" : null,
        d.failed.length
          ? table(
              [
                { name: "Run", quiet: true, wide: true },
                { name: "Workflow" },
                { name: "Failed", number: true },
              ],
              d.failed.map((r) => ({
                key: r.run_id,
                cells: [runLink(r.run_id, { class: "mono row" }), clip(r.workflow, 60), when(r.finished_at)],
              })),
              "Latest failures",
            )
          : empty("No failed run is kept."),
      ),
    ),
  ];
};

function vital(name, value, about, href, more, bad) {
  return h(
    href ? "a" : "div",
    { class: "vital", href },
    h("span", { class: "soft" }, name),
    h("b", { class: bad ? "bad" : null }, num(value) + (more ? "+" : "")),
    h("span", { class: "small" }, about),
  );
}

function blockedBy(w) {
  if (w.by === "gate" && w.gate)
    return h(
      "span",
      null,
      h("a", { href: `/ui/gates?name=${enc(w.gate)}` }, clip(w.gate, 80)),
      " ",
      soft(w.kind),
    );
  if (w.by === "gate") return "a slot that its parent holds";
  if (w.by === "worker") return "no gate: it starts as soon as a worker has room";
  if (w.by === "nobody") return h("span", { class: "badge red" }, "no live worker serves it");
  return "no turn of a worker has looked at them yet";
}

const heldText = (o) =>
  o.kind === "pause"
    ? o.open
      ? h("span", { class: "badge green" }, "let through")
      : h("span", { class: "badge amber" }, "paused")
    : o.kind === "limit"
      ? `at most ${num(o.max)} at once`
      : `${num(o.per_second)} per second, bursts of ${num(o.burst)}`;

export function overviewCharts({ minutes }) {
  barChart(
    "chart-minutes",
    minutes.map((m) => m[0]),
    [
      ["ended", "--bar-token", minutes.map((m) => m[1])],
      ["not completed", "--bar-full", minutes.map((m) => m[2])],
    ],
  );
  lineChart("chart-now", "overview", [
    ["executing", () => css("--bar"), (p) => p.executing],
    ["queued", () => "#d39a35", (p) => p.queued],
  ]);
}

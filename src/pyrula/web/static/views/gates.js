/* The gates, and one gate. */
import { chartBox, css, lineChart, spark } from "../charts.js";
import { h } from "../elements.js";
import { gateId, seen, startsPerSecond } from "../history.js";
import {
  empty,
  field,
  filterBy,
  listing,
  nextStart,
  numbersOf,
  overrideNote,
  panel,
  shut,
  table,
  usage,
} from "../pieces.js";
import { route } from "../route.js";
import { act, askOverride, askPause, askResume, askTakeBack } from "../steering.js";
import { clip, enc, gateLink, keyText, many, num, runLink, soft, when } from "../words.js";

const SORTS = [
  ["queued", "Most queued"],
  ["busy", "Most executing"],
  ["name", "Name"],
];

export const gatesView = (d) =>
  listing({
    title: "Gates",
    about: "One counter for each key of a limit or a rate.",
    filters: [
      field("search", "Name or key holds", "search", { grow: true }),
      field("name", "Gate is"),
      h(
        "label",
        null,
        "Order",
        h(
          "select",
          { id: "filter-sort", on: { change: filterBy("sort") } },
          SORTS.map(([value, text]) =>
            h("option", { value, selected: (route.query.sort || "queued") === value }, text),
          ),
        ),
      ),
    ],
    columns: [
      { name: "Gate", quiet: true, wide: true },
      { name: "Key", wide: true },
      { name: "In use" },
      { name: "Queued", number: true },
      { name: "Since opened", spacious: true },
      { name: "Starts/s", number: true, spacious: true },
      { name: "Next start" },
      { name: "", quiet: true },
    ],
    rows: d.items.map((gate) => {
      const list = seen(gateId(gate));
      const starts = startsPerSecond(list);
      return {
        key: gateId(gate),
        cells: [
          h(
            "span",
            { class: "name" },
            gateLink(clip(gate.name, 60), gate.key, {
              class: "row",
              href: `/ui/gates/${enc(gate.name)}?key=${enc(gate.key)}`,
            }),
            " ",
            soft(gate.kind),
          ),
          h("span", { class: "key" }, keyText(gate.key)),
          usage(gate),
          gate.queued ? h("b", null, num(gate.queued)) : soft("0"),
          spark(list, "queued", `Queued since the page was opened, now ${num(gate.queued)}`),
          starts === null ? soft("…") : starts ? starts.toFixed(1) : soft("0"),
          h("span", { class: "steady" }, nextStart(gate)),
          act(shut(gate) ? "Resume…" : "Override…", () =>
            shut(gate) ? askResume(gate) : askOverride(gate),
          ),
        ],
      };
    }),
    nothing:
      route.query.search || route.query.name
        ? "No gate is like that."
        : "No run with a limit or a rate has been looked at by a worker yet.",
    page: d,
  });

export const gateView = (d) => {
  const gate = d.gate;
  const list = seen(gateId(gate));
  const starts = startsPerSecond(list);
  return [
    h(
      "div",
      { class: "title" },
      h(
        "div",
        null,
        h("p", { class: "soft small" }, h("a", { href: "/ui/gates" }, "Gates")),
        h("h1", null, gate.name, " ", h("span", { class: "badge" }, gate.kind)),
        h("p", { class: "wrap" }, soft("key "), keyText(gate.key)),
      ),
      h(
        "div",
        { class: "actions" },
        shut(gate) ? act("Resume…", () => askResume(gate), "primary") : act("Pause…", () => askPause(gate)),
        act("Override…", () => askOverride(gate)),
        gate.override &&
          (gate.override.limit || gate.override.rate) &&
          act("Take back…", () =>
            askTakeBack({
              gate: gate.name,
              kind: gate.kind,
              key: (gate.override.limit || gate.override.rate).every_key ? null : gate.key,
            }),
          ),
      ),
    ),
    h(
      "section",
      { class: "panel", key: "numbers" },
      h(
        "div",
        { class: "inner", key: "in" },
        h(
          "dl",
          { class: "facts" },
          h("dt", null, gate.kind === "limit" ? "Slots" : "Tokens"),
          h("dd", null, usage(gate)),
          h("dt", null, "Lets in"),
          h("dd", null, numbersOf(gate), " ", overrideNote(gate)),
          h("dt", null, "Next start"),
          h(
            "dd",
            null,
            nextStart(gate),
            gate.pauses.map((p) =>
              h(
                "div",
                { class: "small wrap" },
                p.by === "run"
                  ? [
                      soft("closed by run "),
                      runLink(p.run_id),
                      soft(", which was told to come back later (RetryAfter)"),
                    ]
                  : soft(`paused by an operator, ${p.every_key ? "for all keys" : "for this key"}`),
              ),
            ),
          ),
          h("dt", null, "Queued"),
          h(
            "dd",
            null,
            gate.queued ? many(gate.queued, "run") + " held back here" : "none is held back here",
          ),
          h("dt", null, "Starts"),
          h(
            "dd",
            null,
            starts === null
              ? "…"
              : `${starts.toFixed(1)} per second over the last 5 s, ${num(gate.starts)} since the gate is counted`,
          ),
        ),
      ),
    ),
    panel(
      "Since you opened this page",
      h(
        "span",
        { class: "legend" },
        gate.kind === "limit" && h("span", { class: "c-blue" }, "executing"),
        h("span", { class: "c-amber" }, "queued"),
        h("span", { class: "c-green" }, "starts per second"),
      ),
      h(
        "div",
        { class: "inner" },
        chartBox("chart-gate", `Executing ${num(gate.in_use)}, queued ${num(gate.queued)}`),
      ),
    ),
    h(
      "div",
      { class: "columns" },
      gate.kind === "limit" &&
        panel(
          "Inside",
          many(d.holders.length, "run") +
            (gate.in_use > d.holders.length ? ` of ${num(gate.in_use)} shown` : " with a slot"),
          d.holders.length ? members(d.holders, "Runs with a slot") : empty("No run has a slot."),
        ),
      panel(
        "In line",
        d.waiters.length
          ? `first in line first${gate.queued > d.waiters.length ? `, ${num(d.waiters.length)} of ${num(gate.queued)}` : ""}`
          : null,
        d.waiters.length ? members(d.waiters, "Runs in line") : empty("No run waits here."),
      ),
    ),
  ];
};

const members = (runs, caption) =>
  table(
    [
      { name: "Run", quiet: true, wide: true },
      { name: "Workflow" },
      { name: "Priority", number: true },
      { name: "Submitted", number: true },
    ],
    runs.map((r) => ({
      key: r.run_id,
      cells: [
        runLink(r.run_id, { class: "mono row" }),
        clip(r.workflow, 60),
        r.priority,
        when(r.submitted_at),
      ],
    })),
    caption,
  );

export function gateCharts({ gate }) {
  const list = seen(gateId(gate));
  lineChart("chart-gate", gateId(gate), [
    ...(gate.kind === "rate" ? [] : [["executing", () => css("--bar"), (p) => p.busy]]),
    ["queued", () => "#d39a35", (p) => p.queued],
    ["starts per second", () => css("--bar-token"), (p, i) => startsPerSecond(list, i) || 0],
  ]);
}

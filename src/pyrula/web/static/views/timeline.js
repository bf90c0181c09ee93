/* A run's steps and waits on a timeline. */
import { h } from "../elements.js";
import { panel } from "../pieces.js";
import { clip, now, num, runLink, soft, span } from "../words.js";

const MOST = 200;

/**
 * Steps and waits as bars from the first moment to the last; of a long log the newest. An entry began when the
 * one before it in its branch was over.
 */
export function timeline(d) {
  const r = d.run;
  const t0 = Date.parse(r.submitted_at);
  const end = Math.max(t0 + 1, r.finished_at ? Date.parse(r.finished_at) : now());
  const spans = [
    {
      name: "in line",
      kind: "queued",
      from: t0,
      to: r.started_at ? Date.parse(r.started_at) : end,
      colour: "amber",
      open: !r.started_at && !r.finished_at,
    },
  ];
  const last = new Map();
  const start = d.steps_before ? Date.parse(d.steps[0].at) : r.started_at ? Date.parse(r.started_at) : t0;
  for (const s of d.steps) {
    const parent = s.branch.includes(".") ? s.branch.slice(0, s.branch.lastIndexOf(".")) : "";
    const from = last.get(s.branch) ?? last.get(parent) ?? start;
    const waiting = s.status === "waiting";
    const to = waiting ? end : Date.parse(s.at);
    if (s.kind !== "now" && s.kind !== "patch")
      spans.push({
        ...s,
        from: Math.min(from, to),
        to,
        colour: s.status === "error" ? "red" : s.kind === "step" ? "blue" : "violet",
        open: waiting,
      });
    if (!waiting) last.set(s.branch, to);
  }
  const whole_ = end - t0;
  const [line, ...entries] = spans;
  const kept = [line, ...entries.slice(-MOST)];
  const before = d.steps_before + Math.max(0, entries.length - MOST);
  const WORD = { step: "", sleep: "sleep", event: "event", child: "child", queued: "" };
  return panel(
    "Timeline",
    `from submit ${r.finished_at ? "to end" : "until now"}: ${span(whole_)}`,
    before > 0 && h("p", { class: "cut" }, `The newest ${num(MOST)}; ${num(before)} came before them.`),
    h(
      "div",
      { class: "timeline" },
      kept.map((s) =>
        h(
          "div",
          { class: "span", key: `${s.branch}/${s.number}` },
          h(
            "span",
            { title: `${s.kind} ${s.name}` },
            WORD[s.kind] && s.kind !== s.name ? soft(WORD[s.kind], " ") : "",
            s.run_id ? runLink(s.run_id) : clip(s.name, 80),
            s.branch ? soft(` ·${s.branch}`) : "",
            s.status === "error"
              ? [" ", h("span", { class: "badge red" }, "error")]
              : s.status === "timeout"
                ? [" ", h("span", { class: "badge amber" }, "timed out")]
                : "",
          ),
          h(
            "svg",
            {
              role: "img",
              "aria-label": `${clip(s.name, 80)}: ${span(s.from - t0)} to ${span(s.to - t0)}`,
            },
            h("rect", { x: 0, y: 0, width: "100%", height: 14, rx: 3, class: "ground" }),
            h("rect", {
              x: `${(100 * (s.from - t0)) / whole_}%`,
              y: 0,
              width: `${Math.max(0.4, (100 * (s.to - s.from)) / whole_)}%`,
              height: 14,
              rx: 3,
              class: s.colour,
            }),
          ),
          h(
            "span",
            { class: "number small soft" },
            s.open ? [span(s.to - s.from), " so far"] : span(s.to - s.from),
          ),
        ),
      ),
    ),
  );
}

/* One run. */
import { h } from "../elements.js";
import { panel, table } from "../pieces.js";
import { act, askCancel, askRetry } from "../steering.js";
import { timeline } from "./timeline.js";
import { whyPanel } from "./why.js";
import { badge, clip, gateLink, keyText, many, num, runLink, soft, span, when } from "../words.js";

export const runView = (d) => {
  const r = d.run;
  const over = ["completed", "failed", "cancelled", "expired"].includes(r.state);
  const retriable =
    ["failed", "cancelled", "expired"].includes(r.state) || d.why.reasons.some((x) => x.kind === "set_aside");
  return [
    h(
      "div",
      { class: "title" },
      h(
        "div",
        null,
        h(
          "p",
          { class: "soft small" },
          h("a", { href: "/ui/runs" }, "Runs"),
          d.parent && [" / child of ", runLink(d.parent)],
        ),
        h("h1", null, clip(r.workflow, 120), " ", badge(r.state)),
        h("p", { class: "mono wrap" }, clip(r.run_id, 500)),
      ),
      h(
        "div",
        { class: "actions" },
        retriable && act("Retry…", () => askRetry(r)),
        !over && act("Cancel…", () => askCancel(r, d.children), "danger"),
      ),
    ),
    whyPanel(d),
    h(
      "div",
      { class: "columns" },
      h(
        "section",
        { class: "panel", key: "facts" },
        h("header", null, h("h2", null, "Facts")),
        h(
          "div",
          { class: "inner" },
          h(
            "dl",
            { class: "facts" },
            h("dt", null, "Submitted"),
            h("dd", null, when(r.submitted_at)),
            h("dt", null, "Started"),
            h(
              "dd",
              null,
              r.started_at
                ? [
                    when(r.started_at),
                    soft(`, after ${span(Date.parse(r.started_at) - Date.parse(r.submitted_at))}`),
                  ]
                : soft("not yet"),
            ),
            h("dt", null, over ? "Ended" : "Open for"),
            h(
              "dd",
              null,
              over
                ? [
                    when(r.finished_at),
                    r.started_at &&
                      soft(`, took ${span(Date.parse(r.finished_at) - Date.parse(r.started_at))}`),
                  ]
                : when(r.submitted_at, "for"),
            ),
            h("dt", null, "Attempt"),
            h("dd", null, r.attempt),
            h("dt", null, "Priority"),
            h("dd", null, r.priority, soft(" (1 first, 5 last)")),
            h("dt", null, "Worker"),
            h("dd", null, r.worker_id || soft("–")),
            h("dt", null, "Gates"),
            h(
              "dd",
              null,
              Object.keys(r.keys).length
                ? Object.entries(r.keys).map(([gate, key]) =>
                    h("div", null, gateLink(gate, key), " ", keyText(key)),
                  )
                : soft("none: nothing limits it"),
            ),
          ),
        ),
      ),
      panel(
        r.error ? "Error" : "Result",
        r.error && !over ? "of its last attempt" : null,
        h(
          "div",
          { class: "inner" },
          r.error
            ? h(
                "div",
                { class: "gap" },
                h(
                  "p",
                  null,
                  h("b", null, clip(String(r.error.type || "error"), 200)),
                  " ",
                  clip(String(r.error.message || ""), 2000),
                ),
                r.error.traceback && h("pre", { tabindex: 0, "aria-label": "Traceback" }, r.error.traceback),
              )
            : r.state === "completed"
              ? json(r.result, "Result")
              : soft("It has none yet."),
        ),
      ),
    ),
    timeline(d),
    h(
      "div",
      { class: "columns" },
      panel("Params", null, h("div", { class: "inner" }, json(r.params, "Params"))),
      d.children.length > 0 &&
        panel(
          "Children",
          d.children.length === 100 ? "the first 100" : many(d.children.length, "run"),
          table(
            [{ name: "Run", quiet: true, wide: true }, { name: "Workflow" }, { name: "State" }],
            d.children.map((c) => ({
              key: c.run_id,
              cells: [runLink(c.run_id, { class: "mono row" }), clip(c.workflow, 60), badge(c.state)],
            })),
            "Children",
          ),
        ),
    ),
  ];
};

function json(value, name) {
  let text = JSON.stringify(value, null, 2);
  const whole_ = text.length;
  if (whole_ > 20000) text = text.slice(0, 20000);
  return h(
    "div",
    null,
    h("pre", { tabindex: 0, "aria-label": name }, text),
    whole_ > 20000 && h("p", { class: "small soft" }, `The first 20,000 of ${num(whole_)} characters.`),
  );
}

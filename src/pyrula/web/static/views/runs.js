/* The runs, newest first. */
import { h } from "../elements.js";
import { field, listing } from "../pieces.js";
import { route } from "../route.js";
import { badge, clip, runLink, soft, span, when, withQuery } from "../words.js";

const RUN_STATES = ["", "queued", "executing", "parked", "completed", "failed", "cancelled", "expired"];

export const runsView = (d) =>
  listing({
    title: "Runs",
    about: "Newest first.",
    filters: [field("workflow", "Workflow is"), field("search", "Key is")],
    above: h(
      "nav",
      { class: "chips", "aria-label": "State" },
      RUN_STATES.map((s) =>
        h(
          "a",
          {
            href: withQuery(route.path, { ...route.query, state: s, cursor: "", back: "" }),
            "aria-current": (route.query.state || "") === s ? "true" : null,
          },
          s || "all",
        ),
      ),
    ),
    columns: [
      { name: "Run", quiet: true, wide: true },
      { name: "Workflow", quiet: true },
      { name: "State", quiet: true },
      { name: "Keys", roomy: true },
      { name: "Submitted", number: true },
      { name: "Took", number: true },
      { name: "Worker", roomy: true },
    ],
    rows: d.items.map((r) => ({
      key: r.run_id,
      cells: [
        runLink(r.run_id, { class: "mono row" }),
        h(
          "span",
          { class: "wrap" },
          clip(r.workflow, 80),
          r.attempt > 1 ? soft(` attempt ${r.attempt}`) : "",
        ),
        badge(r.state),
        keysOf(r.keys),
        when(r.submitted_at),
        took(r),
        r.worker_id ? h("span", { class: "small wrap" }, clip(r.worker_id, 40)) : null,
      ],
    })),
    nothing: d.cursor
      ? "None on this page: the filter leaves out 20,000 runs in a row. Next goes on."
      : "No run is like that.",
    page: d,
  });

const keysOf = (keys) => {
  const texts = [...new Set(Object.values(keys))].filter((k) => k !== "");
  return texts.length
    ? h("span", { class: "mono small wrap" }, texts.map((k) => clip(k, 40)).join(", "))
    : soft("–");
};

function took(r) {
  if (!r.started_at) return r.finished_at ? soft("never started") : soft("not started");
  if (r.finished_at) return span(Date.parse(r.finished_at) - Date.parse(r.started_at));
  return when(r.started_at, "for");
}

/* The workflows, as they were declared. */
import { h } from "../elements.js";
import { listing } from "../pieces.js";
import { act, askRestamp } from "../steering.js";
import { clip, enc, num, soft, span, when } from "../words.js";

export const workflowsView = (d) =>
  listing({
    title: "Workflows",
    about: "The newest declaration of each, as a worker registered it.",
    columns: [
      { name: "Workflow", quiet: true, wide: true },
      { name: "Served" },
      { name: "Flow control", wide: true },
      { name: "Registered", number: true },
      { name: "", quiet: true },
    ],
    rows: d.items.map((w) => ({
      key: w.workflow,
      cells: [
        h("a", { class: "row", href: `/ui/runs?workflow=${enc(w.workflow)}` }, clip(w.workflow, 80)),
        w.served
          ? h("span", { class: "badge green" }, "by a live worker")
          : h("span", { class: "badge red" }, "by nobody"),
        policies(w.declaration),
        when(w.registered_at),
        act("Restamp…", () => askRestamp(w.workflow)),
      ],
    })),
    nothing: "No worker has registered a workflow yet.",
  });

function policies(x) {
  const parts = (x.gates || []).map((g) =>
    h(
      "div",
      null,
      h("a", { href: `/ui/gates?name=${enc(g.name)}` }, g.name),
      soft(
        Array.isArray(g.number)
          ? ` ${num(g.number[0] / g.number[1])} per second, bursts of ${num(g.number[2])}`
          : ` at most ${num(g.number)}`,
        g.key === null ? " in all" : ` per ${typeof g.key === "string" ? g.key : "computed key"}`,
        g.hold === "run" ? ", held for the whole run" : "",
      ),
    ),
  );
  if (x.trigger)
    parts.push(
      h(
        "div",
        null,
        x.trigger.kind === "collect"
          ? `collects ${num(x.trigger.max_events)} events or ${span(x.trigger.window_us / 1000)}`
          : `debounces ${span(x.trigger.window_us / 1000)}`,
        soft(` per ${x.trigger.key}`),
      ),
    );
  return parts.length ? h("div", { class: "small wrap" }, parts) : soft("none");
}

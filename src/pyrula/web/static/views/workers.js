/* The workers, and the streams they own. */
import { h } from "../elements.js";
import { listing, meter, panel, table } from "../pieces.js";
import { clip, enc, heldBack, num, soft, when } from "../words.js";

export const workersView = (d) => [
  ...listing({
    title: "Workers",
    about: "Who may take runs, and what holds each back.",
    columns: [
      { name: "Worker", quiet: true, wide: true },
      { name: "State" },
      { name: "Executing" },
      { name: "Held back by", wide: true },
      { name: "Serves", wide: true },
      { name: "Since", number: true },
    ],
    rows: d.items.map((w) => ({
      key: w.incarnation,
      cells: [
        h(
          "span",
          { class: "wrap" },
          h("b", null, clip(w.worker_id, 80)),
          w.facts.host ? soft(` on ${w.facts.host}, process ${w.facts.process}`) : "",
        ),
        w.alive
          ? h("span", { class: "badge green" }, "alive")
          : h("span", { class: "badge red" }, "lapsed"),
        w.facts.max_concurrent_runs
          ? h(
              "div",
              { class: "used" },
              meter(
                w.executing,
                w.facts.max_concurrent_runs,
                `${w.executing} of ${w.facts.max_concurrent_runs}`,
              ),
              h(
                "span",
                { class: "small" },
                `${num(w.executing)} of ${num(w.facts.max_concurrent_runs)}`,
              ),
            )
          : num(w.executing),
        w.facts.held_back && w.facts.held_back.length
          ? h("span", { class: "held wrap" }, heldBack(w.facts.held_back))
          : w.facts.max_concurrent_runs && w.executing >= w.facts.max_concurrent_runs
            ? "all its places are taken"
            : soft("nothing"),
        h(
          "span",
          { class: "small wrap" },
          w.serves.length > 8
            ? `${w.serves.slice(0, 8).join(", ")} and ${w.serves.length - 8} more`
            : w.serves.join(", "),
        ),
        when(w.started_at),
      ],
    })),
    nothing: ["No worker is registered. Start one with ", h("code", null, "pyrula worker MODULE"), "."],
  }),
  streamsPanel(d.items.filter((w) => w.alive && (w.facts.streams || []).length)),
];

function streamsPanel(workers) {
  if (!workers.length) return null;
  const rows = workers.flatMap((w) => w.facts.streams.flatMap((s) => s.partitions.map((p) => ({ w, s, p }))));
  return panel(
    "Streams",
    "what each worker owns, a second or two ago",
    table(
      [
        { name: "Partition", quiet: true },
        { name: "Workflow", quiet: true },
        { name: "Worker" },
        { name: "State", wide: true },
        { name: "Lag", number: true },
        { name: "In flight", number: true },
        { name: "Waiting", number: true },
        { name: "Committed", number: true },
      ],
      rows.map(({ w, s, p }) => ({
        key: `${w.incarnation} ${s.workflow} ${p.partition}`,
        cells: [
          h(
            "a",
            { class: "row", href: `/ui/runs?key=${enc(`${s.topic}/${p.partition}`)}` },
            clip(`${s.topic}/${p.partition}`, 120),
          ),
          clip(s.workflow, 80),
          clip(w.worker_id, 80),
          p.stopped
            ? h(
                "span",
                { class: "wrap" },
                h("span", { class: "badge red" }, "stopped"),
                " ",
                h("span", { class: "held" }, clip(p.stopped, 600)),
              )
            : s.trouble
              ? h(
                  "span",
                  { class: "wrap" },
                  h("span", { class: "badge red" }, "trouble"),
                  " ",
                  clip(s.trouble, 300),
                )
              : p.paused
                ? soft("paused: enough was read")
                : h("span", { class: "badge green" }, "consumed"),
          p.lag === null ? soft("unknown") : num(p.lag),
          num(p.in_flight),
          num(p.waiting),
          p.committed === null ? soft("nothing") : num(p.committed),
        ],
      })),
      "Streams",
    ),
  );
}

/* The buffers. */
import { h } from "../elements.js";
import { field, listing, meter } from "../pieces.js";
import { act, askFlush } from "../steering.js";
import { clip, enc, keyText, many, num, soft, when } from "../words.js";

export const buffersView = (d) =>
  listing({
    title: "Buffers",
    about: "Events of Collect and Debounce that have not become a run yet, the one due first first.",
    filters: [field("workflow", "Workflow is"), field("search", "Key holds")],
    columns: [
      { name: "Workflow", quiet: true, wide: true },
      { name: "Key", wide: true },
      { name: "Events" },
      { name: "Opened", number: true },
      { name: "Fires", number: true },
      { name: "", quiet: true },
    ],
    rows: d.items.map((b) => ({
      key: `${b.workflow}\n${b.key}`,
      cells: [
        h(
          "span",
          { class: "wrap" },
          h("a", { class: "row", href: `/ui/runs?workflow=${enc(b.workflow)}` }, clip(b.workflow, 80)),
          " ",
          soft(b.kind),
        ),
        keyText(b.key),
        b.max_events
          ? h(
              "div",
              { class: "used" },
              meter(b.count, b.max_events, `${b.count} of ${b.max_events} events`),
              h("span", { class: "small" }, `${num(b.count)} of ${num(b.max_events)}`),
            )
          : many(b.count, "event"),
        when(b.opened_at),
        when(b.due_at, "in"),
        act("Flush…", () => askFlush(b)),
      ],
    })),
    nothing: "No buffer holds an event.",
    page: d,
  });

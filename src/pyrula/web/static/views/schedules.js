/* The schedules. */
import { h } from "../elements.js";
import { listing } from "../pieces.js";
import { clip, enc, soft, span, when } from "../words.js";

export const schedulesView = (d) =>
  listing({
    title: "Schedules",
    about: "One run for each tick, however many workers there are.",
    columns: [
      { name: "Workflow", quiet: true, wide: true },
      { name: "Schedule", wide: true },
      { name: "Next tick" },
      { name: "", quiet: true },
    ],
    rows: d.items.map((s) => ({
      key: `${s.workflow} ${s.number}`,
      cells: [
        h("a", { class: "row", href: `/ui/runs?workflow=${enc(s.workflow)}` }, clip(s.workflow, 80)),
        scheduleText(s.schedule),
        s.unserved ? soft("when a worker serves it") : when(s.next_at, "until"),
        h("a", { class: "button", href: `/ui/runs?workflow=${enc(s.workflow)}` }, "Its runs"),
      ],
    })),
    nothing: "No workflow that a worker has registered has a schedule.",
  });

function scheduleText(s) {
  const params =
    s.params && Object.keys(s.params).length
      ? soft(" with ", h("code", null, clip(JSON.stringify(s.params), 120)))
      : "";
  if (s.cron) return h("span", { class: "wrap" }, h("code", null, s.cron), ` ${s.tz}`, params);
  const us = s.every_us;
  if (us) return h("span", { class: "wrap" }, `every ${span(us / 1000)}`, params);
  return h("code", { class: "wrap" }, clip(JSON.stringify(s), 200));
}

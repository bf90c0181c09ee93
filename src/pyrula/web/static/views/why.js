/* Why a run is not executing, or what it holds up. */
import { h } from "../elements.js";
import { meter } from "../pieces.js";
import { act, askOverride, askResume } from "../steering.js";
import { badge, clip, enc, gateLink, heldBack, keyText, num, runLink, soft, when } from "../words.js";

export function whyPanel(d) {
  const { why, run: r } = d;
  const over = ["completed", "failed", "cancelled", "expired"].includes(r.state);
  if (over && !why.reasons.length) return null;
  return h(
    "section",
    { class: "panel why", key: "why" },
    h(
      "header",
      null,
      h(
        "h2",
        null,
        over ? "What it holds up" : r.state === "executing" ? "Where it is" : "Why it is not executing",
      ),
    ),
    h(
      "div",
      { class: "inner" },
      h(
        "ul",
        { class: "plain" },
        r.state === "executing" && h("li", { class: "reason" }, `Its body runs on worker ${r.worker_id}.`),
        why.reasons.map((reason, i) =>
          h(
            "li",
            { class: "reason", key: `${reason.kind} ${reason.gate || reason.name || ""} ${i}` },
            reasonText(reason),
          ),
        ),
        !why.reasons.length &&
          r.state !== "executing" &&
          h(
            "li",
            { class: "reason" },
            "Nothing is in its way: the next turn of a worker with room starts it.",
          ),
        why.place !== null &&
          h(
            "li",
            { class: "reason" },
            h(
              "span",
              null,
              "Place in line: ",
              h("b", null, typeof why.place === "number" ? num(why.place) : why.place),
              soft(" among the runs like it"),
              why.earliest_start && [". Earliest start ", when(why.earliest_start, "in"), "."],
            ),
          ),
      ),
    ),
  );
}

function reasonText(x) {
  const gate =
    x.gate === "slot" || !x.gate
      ? null
      : { name: x.gate, key: x.key, kind: x.kind === "rate" ? "rate" : "limit" };
  const link = gate
    ? [gateLink(gate.name, gate.key), " for ", keyText(gate.key)]
    : "the slot that a run of its family holds";
  const look =
    gate &&
    h("a", { class: "button", href: `/ui/gates/${enc(gate.name)}?key=${enc(gate.key)}` }, "Open the gate");
  switch (x.kind) {
    case "limit":
      return [
        h(
          "div",
          { class: "top" },
          h("span", null, x.in_use >= x.max ? h("b", null, "Full: ") : h("b", null, "Behind others: "), link),
          h(
            "span",
            { class: "actions" },
            gate &&
              act("Raise the limit…", () =>
                askOverride({ ...gate, kind: "limit", max: x.max, in_use: x.in_use, queued: 1, raise: true }),
              ),
            look,
          ),
        ),
        h(
          "div",
          { class: "used" },
          meter(x.in_use, x.max, `${x.in_use} of ${x.max} in use`),
          h("span", { class: "small" }, `${num(x.in_use)} of ${num(x.max)} slots in use`),
        ),
        x.holders.length > 0 &&
          h(
            "p",
            { class: "small" },
            soft("held by "),
            x.holders.slice(0, 5).map((id, i) => [i ? ", " : "", runLink(id)]),
            x.holders.length > 5 ? soft(` and ${num(x.holders.length - 5)} more`) : "",
          ),
      ];
    case "rate":
      return [
        h(
          "div",
          { class: "top" },
          h("span", null, h("b", null, x.tokens ? "Behind others: " : "Out of tokens: "), link),
          look,
        ),
        h(
          "p",
          { class: "small" },
          `${num(x.tokens)} of ${num(x.burst)} tokens, ${num(x.per_second)} more each second`,
          x.tokens < x.burst ? ["; the next comes ", when(x.next_token_at, "in")] : "",
        ),
      ];
    case "pause":
      return [
        h(
          "div",
          { class: "top" },
          h(
            "span",
            null,
            h("b", null, x.by === "run" ? "Closed by RetryAfter: " : "Paused by an operator: "),
            link,
            x.every_key && ", all keys",
            x.until ? [", until ", when(x.until, "until")] : ", until somebody resumes it",
            x.by === "run" && [", as run ", runLink(x.run_id), " was told"],
          ),
          h(
            "span",
            { class: "actions" },
            gate && act("Resume…", () => askResume({ ...gate, queued: 1, pauses: [x] })),
            look,
          ),
        ),
      ];
    case "not_due":
      return h(
        "span",
        null,
        h("b", null, x.backs_off ? "Backs off before its next attempt: " : "Not due: "),
        "starts ",
        when(x.until, "in"),
        x.error && soft(` after ${clip(String(x.error.type), 80)}: ${clip(String(x.error.message), 300)}`),
      );
    case "no_worker":
      if (x.owner_of)
        return h(
          "span",
          null,
          h("b", null, "No live worker "),
          `owns partition ${x.owner_of} for workflow ${x.workflow} yet: start one, or wait for the group to hand the partition over.`,
        );
      return h(
        "span",
        null,
        h("b", null, "No live worker "),
        `serves workflow ${x.workflow}: start one that has it.`,
      );
    case "workers_held_back":
      return [
        h("span", null, h("b", null, "Every worker is held back "), "by its own limits:"),
        h(
          "p",
          { class: "small" },
          x.workers.slice(0, 5).map((w) => h("div", null, `${w.worker_id}: ${heldBack(w.held_back)}`)),
        ),
      ];
    case "cancelling":
      return [h("b", null, "Being cancelled: "), "its worker was told, and its body has not ended yet."];
    case "partition_stopped":
      return h(
        "span",
        { class: "held wrap" },
        h("b", null, `Partition ${x.partition} has stopped at it: `),
        clip(x.why, 2000),
      );
    case "set_aside":
      return h(
        "span",
        null,
        h("b", null, "Set aside: "),
        clip(String((x.error && x.error.message) || "its replay met another step than its log holds"), 1000),
        ". Retry it, or deploy code that can replay its log.",
      );
    case "waiting_for":
      return h(
        "span",
        null,
        x.what === "sleep"
          ? [h("b", null, "Sleeps"), x.until && [", wakes ", when(x.until, "in")]]
          : x.what === "child"
            ? [
                h("b", null, "Waits for its child "),
                runLink(x.run_id),
                x.state && [" ", badge(x.state)],
                x.until && [", gives up ", when(x.until, "in")],
              ]
            : [
                h("b", null, "Waits for the event "),
                h("code", null, clip(x.name, 120)),
                x.until && [", gives up ", when(x.until, "in")],
              ],
      );
    default:
      return x.kind;
  }
}

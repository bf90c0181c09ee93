/* What an operator may do. Each act asks first, and says what it will do, in numbers. */
import { ask } from "./dialog.js";
import { h } from "./elements.js";
import { numbersOf } from "./pieces.js";
import { call, session } from "./server.js";
import { clockTime, enc, many, now, num, ofKey } from "./words.js";

const mayTouch = () => session && session.access === "full";
const readOnly = "Your token is read-only: it may look, not touch.";

export function act(label, handler, kind) {
  const may = mayTouch();
  return h(
    "button",
    { type: "button", class: kind, disabled: !may, title: may ? null : readOnly, on: { click: handler } },
    label,
  );
}

const LASTS = [
  ["600", "10 minutes"],
  ["3600", "1 hour"],
  ["28800", "8 hours"],
  ["86400", "1 day"],
  ["", "until taken back"],
];
const lasting = (seconds) =>
  seconds
    ? `It lapses by itself at ${clockTime(now() + 1000 * seconds)}.`
    : "It holds until somebody takes it back, over deploys and restarts.";
const scope = (gate, every) =>
  [
    ["this", ofKey(gate.key)],
    ["every", "all keys of this gate"],
  ].slice(0, every === false ? 1 : 2);
const keyOf = (gate, values) => (values.scope === "every" ? null : gate.key);

export function askOverride(gate) {
  const limit = gate.kind === "limit";
  ask({
    title: `Override ${gate.name}`,
    fields: limit
      ? [
          {
            name: "max",
            label: "Runs at once",
            type: "number",
            min: 1,
            step: 1,
            value: String((gate.max === null ? 1 : gate.max) + (gate.raise ? 1 : 0)),
          },
          { name: "lasts", label: "For", choices: LASTS, value: "600" },
          { name: "scope", label: "Of", choices: scope(gate), value: "this" },
        ]
      : [
          {
            name: "per_second",
            label: "Starts per second",
            type: "number",
            min: 0.000001,
            step: "any",
            value: String(gate.per_second === null ? 1 : gate.per_second),
          },
          {
            name: "burst",
            label: "Burst",
            type: "number",
            min: 1,
            step: 1,
            value: String(gate.burst === null ? 1 : gate.burst),
          },
          { name: "lasts", label: "For", choices: LASTS, value: "600" },
          { name: "scope", label: "Of", choices: scope(gate), value: "this" },
        ],
    says: (v) => {
      const who = v.scope === "every" ? "all keys" : ofKey(gate.key);
      if (limit ? !isWhole(v.max) : !(Number(v.per_second) > 0 && isWhole(v.burst)))
        return [limit ? WHOLE : `Starts per second: a number above 0. Burst: ${WHOLE.toLowerCase()}`];
      const first = limit
        ? `Lets ${num(Number(v.max) || 0)} at once through ${gate.name} for ${who}; ` +
          `now it is ${gate.max === null ? "as stamped" : num(gate.max)}.`
        : `Starts ${v.per_second} per second through ${gate.name} for ${who}, in bursts of ${v.burst}; ` +
          `now ${numbersOf(gate)}.`;
      const more = limit ? Math.max(0, Math.min(gate.queued, (Number(v.max) || 0) - gate.in_use)) : null;
      return [
        first,
        limit && v.scope === "this"
          ? more
            ? `Up to ${many(more, "queued run")} ${more === 1 ? "starts" : "start"} at once, ` +
              `if nothing else holds ${more === 1 ? "it" : "them"}.`
            : Number(v.max) < gate.in_use
              ? `${num(gate.in_use)} execute now; none is stopped, and none starts until fewer than ${v.max} execute.`
              : "Nothing that waits starts by it alone."
          : null,
        lasting(Number(v.lasts)),
      ].filter(Boolean);
    },
    action: "Override",
    send: (v) =>
      call("POST", `/gates/${enc(gate.name)}/override`, {
        key: keyOf(gate, v),
        expires_in: v.lasts ? Number(v.lasts) : null,
        ...(limit ? { max: whole(v.max) } : { per_second: Number(v.per_second), burst: whole(v.burst) }),
      }),
    done: "Overridden.",
  });
}

const WHOLE = "A whole number of at least 1.";
const isWhole = (text) => Number.isSafeInteger(Number(text)) && Number(text) >= 1;
const whole = (text) => {
  if (!isWhole(text)) throw new Error(`${text || "nothing"} is no whole number of at least 1`);
  return Number(text);
};

export function askPause(gate) {
  ask({
    title: `Pause ${gate.name}`,
    fields: [
      { name: "lasts", label: "For", choices: LASTS, value: "600" },
      { name: "scope", label: "Of", choices: scope(gate), value: "this" },
    ],
    says: (v) => [
      `Starts nothing through ${gate.name} for ${v.scope === "every" ? "all keys" : ofKey(gate.key)}. ` +
        (gate.in_use
          ? `${many(gate.in_use, "run")} that ${gate.in_use === 1 ? "executes goes" : "execute go"} on.`
          : "What executes goes on."),
      "Nothing is lost: runs stay queued.",
      v.lasts ? lasting(Number(v.lasts)) : "It holds until somebody resumes it.",
    ],
    action: "Pause",
    danger: true,
    send: (v) =>
      call("POST", `/gates/${enc(gate.name)}/pause`, {
        key: keyOf(gate, v),
        seconds: v.lasts ? Number(v.lasts) : null,
      }),
    done: "Paused.",
  });
}

export function askResume(gate) {
  const every = gate.pauses.some((p) => p.every_key);
  ask({
    title: `Resume ${gate.name}`,
    fields: [{ name: "scope", label: "Of", choices: scope(gate), value: every ? "every" : "this" }],
    says: (v) =>
      [
        `Ends the pause of ${gate.name} for ${v.scope === "every" ? "all keys" : ofKey(gate.key)}.`,
        gate.queued
          ? `${many(gate.queued, "run")} of this key ${gate.queued === 1 ? "waits" : "wait"}; they start as the gate lets them.`
          : "No run of this key waits here.",
        v.scope === "every" ? "A key that was paused by itself stays so." : null,
      ].filter(Boolean),
    action: "Resume",
    send: (v) => call("POST", `/gates/${enc(gate.name)}/resume`, { key: keyOf(gate, v) }),
    done: "Resumed.",
  });
}

export function askTakeBack(held) {
  const pause = held.kind === "pause";
  ask({
    title: pause ? `Resume ${held.gate}` : `Take back the override of ${held.gate}`,
    says: () => [
      pause
        ? `Ends the pause of ${held.gate} for ${ofKey(held.key)}.`
        : `Runs of ${held.gate}, ${ofKey(held.key)}, go by what they were stamped with again. None that executes is stopped.`,
    ],
    action: pause ? "Resume" : "Take back",
    send: () =>
      pause
        ? call("POST", `/gates/${enc(held.gate)}/resume`, { key: held.key })
        : call(
            "DELETE",
            `/gates/${enc(held.gate)}/override${held.key === null ? "" : `?key=${enc(held.key)}`}`,
          ),
    done: pause ? "Resumed." : "Taken back.",
  });
}

export function askCancel(run, children) {
  const open = (children || []).filter(
    (child) => !["completed", "failed", "cancelled", "expired"].includes(child.state),
  ).length;
  ask({
    title: "Cancel this run?",
    says: () =>
      [
        `${run.workflow} ${run.run_id} is ${run.state}.`,
        run.state === "executing"
          ? "Its body is told to stop; its slot is free once it has."
          : "It ends at once, and takes no slot or token.",
        open
          ? `Its ${many(open, "open child", "open children")} ${open === 1 ? "is" : "are"} cancelled with it.`
          : null,
        "Steps that are done stay done; Retry takes it up again from there.",
      ].filter(Boolean),
    action: "Cancel the run",
    danger: true,
    send: () => call("POST", `/runs/${enc(run.run_id)}/cancel`, {}),
    done: (answer) => (answer.accepted ? "Cancelled." : "It had ended already."),
  });
}

export function askRetry(run) {
  ask({
    title: "Retry this run?",
    says: () => [
      `${run.workflow} ${run.run_id} goes back into its queue, as attempt ${run.attempt + (run.state === "parked" ? 0 : 1)}.`,
      "Steps that succeeded are not repeated. It waits for its gates as stamped.",
    ],
    action: "Retry",
    send: () => call("POST", `/runs/${enc(run.run_id)}/retry`, {}),
    done: (answer) => (answer.accepted ? "Queued again." : "It is not in a state to be retried."),
  });
}

export function askFlush(buffer) {
  ask({
    title: `Flush ${buffer.workflow}`,
    says: () => [
      `Submits one run of ${buffer.workflow} with the ${many(buffer.count, "event")} of ` +
        `${ofKey(buffer.key)} now, instead of waiting for its window.`,
      "The next event opens a new buffer.",
    ],
    action: "Flush",
    send: () => call("POST", `/buffers/${enc(buffer.workflow)}/flush`, { key: buffer.key }),
    done: (answer) => (answer.run_id ? `Submitted as ${answer.run_id}.` : "The buffer had fired already."),
  });
}

export function askRestamp(workflow) {
  ask({
    title: `Restamp ${workflow}`,
    says: () => [
      `Gives every queued run of ${workflow} the current declaration: its gates, numbers and keys.`,
      "Runs that execute or are parked keep theirs.",
    ],
    action: "Restamp",
    send: () => call("POST", `/workflows/${enc(workflow)}/restamp`, {}),
    done: (answer) => `${many(answer.count, "run was", "runs were")} restamped.`,
  });
}

/* Pieces that views share: meters, tables, panels, pages, filters. */
import { h } from "./elements.js";
import { go, route } from "./route.js";
import { now, num, soft, when, withQuery } from "./words.js";

export function meter(used, most, label, kind) {
  const share = most > 0 ? Math.min(1, used / most) : 0;
  const cells = most <= 16 ? most : 0;
  const fill = kind === "token" ? "token" : share >= 1 ? "full" : "part";
  const rects = [];
  if (cells)
    for (let i = 0; i < cells; i++)
      rects.push(
        h("rect", {
          x: `${(100 * i) / cells + (i ? 0.6 : 0)}%`,
          y: 0,
          width: `${100 / cells - (i ? 0.6 : 0)}%`,
          height: 10,
          class: i < used ? fill : "rest",
        }),
      );
  else
    rects.push(
      h("rect", { x: 0, y: 0, width: "100%", height: 10, class: "rest" }),
      h("rect", { x: 0, y: 0, width: `${100 * share}%`, height: 10, class: fill }),
    );
  return h("svg", { class: "meter", role: "img", "aria-label": label }, rects);
}

export function usage(gate) {
  if (gate.kind === "limit") {
    if (gate.max === null) return h("span", null, `${num(gate.in_use)} in use`);
    const text = `${num(gate.in_use)} of ${num(gate.max)} slots`;
    return h(
      "div",
      { class: "used" },
      meter(gate.in_use, gate.max, text + " in use"),
      h("span", { class: "small" }, text),
    );
  }
  if (gate.burst === null) return soft("rate not known");
  const text = `${num(gate.tokens)} of ${num(gate.burst)} tokens`;
  return h(
    "div",
    { class: "used" },
    meter(gate.tokens, gate.burst, text + " left", "token"),
    h("span", { class: "small" }, text),
  );
}

export const shut = (gate) => gate.pauses.length > 0;

export function nextStart(gate) {
  if (shut(gate))
    return gate.pauses.map((p) =>
      h(
        "div",
        null,
        h("span", { class: "badge amber" }, p.by === "run" ? "RetryAfter" : "paused"),
        h("div", { class: "small" }, p.until ? [soft("ends "), when(p.until, "in")] : soft("until resumed")),
      ),
    );
  if (
    gate.kind === "rate" &&
    gate.tokens === 0 &&
    gate.next_start_at &&
    Date.parse(gate.next_start_at) <= now() + 1000
  )
    return soft("within a second");
  if (gate.next_start_at)
    return Date.parse(gate.next_start_at) <= now() + 300 ? soft("open") : when(gate.next_start_at, "in");
  return soft("when a slot frees");
}

export function numbersOf(gate) {
  return gate.kind === "limit"
    ? gate.max === null
      ? "limit"
      : `at most ${num(gate.max)} at once`
    : gate.per_second === null
      ? "rate"
      : `${num(gate.per_second)} per second, bursts of ${num(gate.burst)}`;
}

export function overrideNote(gate) {
  const held = gate.override && (gate.override.limit || gate.override.rate);
  if (!held) return null;
  return h(
    "span",
    { class: "small soft" },
    "overridden",
    held.every_key ? " for all keys" : "",
    held.expires_at ? [", lapses ", when(held.expires_at, "in")] : ", until taken back",
  );
}

const look = (column, ...words) => words.filter((word) => column[word]).join(" ") || null;

/**
 * Columns: [{name, quiet: no label on a phone, wide: a row of its own there, number, roomy: not on a phone,
 * spacious: only on a wide screen}, …]; rows: [{key, cells}, …].
 */
export function table(columns, rows, caption) {
  return h(
    "table",
    { class: "rows", role: "table" },
    h("caption", { class: "hidden" }, caption),
    h(
      "thead",
      { role: "rowgroup" },
      h(
        "tr",
        { role: "row" },
        columns.map((c) =>
          h(
            "th",
            {
              role: "columnheader",
              scope: "col",
              class: look(c, "number", "roomy", "spacious"),
            },
            c.name || h("span", { class: "hidden" }, "Action"),
          ),
        ),
      ),
    ),
    h(
      "tbody",
      { role: "rowgroup" },
      rows.map(({ key, cells }) =>
        h(
          "tr",
          { key, role: "row" },
          cells.map((cell, i) =>
            h(
              "td",
              {
                role: "cell",
                class: look(
                  { ...columns[i], blank: cell === null },
                  "number",
                  "wide",
                  "roomy",
                  "spacious",
                  "blank",
                ),
                "data-label": columns[i].quiet ? null : columns[i].name,
              },
              cell,
            ),
          ),
        ),
      ),
    ),
  );
}

export const panel = (title, about, ...body) =>
  h(
    "section",
    { class: "panel", key: title },
    h("header", null, h("h2", null, title), about && h("span", { class: "small soft" }, about)),
    ...body,
  );
export const empty = (...text) => h("p", { class: "empty" }, ...text);

export function pager(d) {
  const stack = (route.query.back || "").split(".").filter(Boolean);
  if (!d.cursor && !route.query.cursor && !d.cut) return null;
  const next = d.cursor && {
    ...route.query,
    cursor: d.cursor,
    back: [...stack, route.query.cursor || "0"].slice(-20).join("."),
  };
  const back = stack.length
    ? {
        ...route.query,
        cursor: stack[stack.length - 1] === "0" ? "" : stack[stack.length - 1],
        back: stack.slice(0, -1).join("."),
      }
    : route.query.cursor
      ? { ...route.query, cursor: "", back: "" }
      : null;
  return h(
    "div",
    { class: "pager" },
    h(
      "span",
      { class: "small soft" },
      d.cut ? "This order ends here; there are more. Search, or order by name." : "",
    ),
    h(
      "div",
      null,
      back && h("a", { class: "button", href: withQuery(route.path, back) }, "Back"),
      next && h("a", { class: "button", href: withQuery(route.path, next) }, "Next"),
    ),
  );
}

/**
 * A view that is one list. filters: fields over it; above: what stands between them and the list; nothing: what is
 * said in place of no rows; page: the data, if it comes in pages.
 */
export const listing = ({ title, about, filters, above, columns, rows, nothing, page }) => [
  h(
    "div",
    { class: "title" },
    h("div", null, h("h1", null, title), h("p", { class: "soft" }, about)),
    filters && h("div", { class: "filters" }, filters),
  ),
  above,
  h(
    "section",
    { class: "panel" },
    rows.length ? table(columns, rows, title) : empty(nothing),
    page && pager(page),
  ),
];

export function filterBy(name) {
  return (event) => {
    clearTimeout(filterBy.timer);
    const value = event.target.value;
    const go_ = () =>
      go(withQuery(route.path, { ...route.query, [name]: value, cursor: "", back: "" }), true);
    if (event.type === "input") filterBy.timer = setTimeout(go_, 250);
    else go_();
  };
}

export const field = (name, label, type, props) =>
  h(
    "label",
    { class: props && props.grow ? "grow" : null },
    label,
    h("input", {
      type: type || "search",
      id: `filter-${name}`,
      value: route.query[name] || "",
      placeholder: props && props.hint,
      autocomplete: "off",
      spellcheck: "false",
      maxlength: 200,
      on: { input: filterBy(name) },
    }),
  );

/* The page without a mouse. */
import { $, h } from "./elements.js";
import { NAV, go } from "./route.js";
import { session } from "./server.js";

export function showKeys() {
  const dialog = $("#dialog");
  const rows = [
    ["/", "search"],
    ["j  k", "next, previous row"],
    ["Enter", "open it"],
    ["g then …", NAV.map(([, name, key]) => `${key} ${name.toLowerCase()}`).join(", ")],
    ["t", "light, dark, as the system has it"],
    ["Esc", "close, leave a field"],
    ["?", "these keys"],
  ];
  dialog.replaceChildren(
    h(
      "form",
      { on: { submit: () => dialog.close() } },
      h("h2", { id: "dialog-title" }, "Keys"),
      h(
        "table",
        null,
        h(
          "tbody",
          null,
          rows.map(([key, what]) => h("tr", null, h("td", null, h("kbd", null, key)), h("td", null, what))),
        ),
      ),
      h("div", { class: "end" }, h("button", { type: "submit", class: "primary" }, "Close")),
    ),
  );
  dialog.showModal();
}

/** Let the keys steer the page; turnTheme: what t does. */
export function listenToKeys(turnTheme) {
  let pending = "";
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !session) return;
    const field_ = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.nodeName);
    if (field_) {
      if (event.key === "Escape" && !$("#dialog").open) event.target.blur();
      return;
    }
    if ($("#dialog").open) return;
    const was = pending;
    pending = "";
    if (was === "g") {
      const target = NAV.find(([, , key]) => key === event.key);
      if (target) {
        event.preventDefault();
        go(target[3]);
      }
      return;
    }
    const rows = [...document.querySelectorAll("a.row")];
    const at = rows.indexOf(document.activeElement);
    const actions = {
      g: () => {
        pending = "g";
      },
      "/": () => {
        const box = $("#filter-search") || $("#filter-workflow");
        if (box) box.focus();
        else go("/ui/gates");
      },
      j: () => rows.length && rows[Math.min(rows.length - 1, at + 1)].focus(),
      k: () => rows.length && rows[Math.max(0, at - 1)].focus(),
      t: turnTheme,
      "?": showKeys,
    };
    if (actions[event.key]) {
      event.preventDefault();
      actions[event.key]();
    }
  });
}

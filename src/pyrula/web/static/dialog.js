/* The dialog that asks first and says what it will do, and the word afterwards. */
import { $, h, morphChildren } from "./elements.js";
import { wording } from "./server.js";

/**
 * Ask. fields: [{name, label, type, value, …}]; says(values) → lines; send(values) → promise;
 * done: what to say afterwards.
 */
export function ask({ title, fields, says, action, danger, send, done }) {
  const dialog = $("#dialog");
  const values = Object.fromEntries((fields || []).map((f) => [f.name, f.value]));
  let wrong = "";
  let sending = false;
  const show = () => {
    const lines_ = says(values);
    morphChildren(
      dialog,
      h(
        "dialog",
        null,
        h(
          "form",
          { novalidate: true, on: { submit } },
          h("h2", { id: "dialog-title" }, title),
          (fields || []).length
            ? h(
                "div",
                { class: fields.length > 1 ? "pair" : "" },
                fields.map((f) =>
                  h(
                    "label",
                    null,
                    f.label,
                    f.choices
                      ? h(
                          "select",
                          {
                            name: f.name,
                            on: {
                              change: (e) => {
                                values[f.name] = e.target.value;
                                show();
                              },
                            },
                          },
                          f.choices.map(([value, text]) =>
                            h("option", { value, selected: value === values[f.name] }, text),
                          ),
                        )
                      : h("input", {
                          name: f.name,
                          type: f.type || "text",
                          inputmode: f.type === "number" ? "decimal" : null,
                          min: f.min,
                          step: f.step,
                          value: values[f.name],
                          on: {
                            input: (e) => {
                              values[f.name] = e.target.value;
                              show();
                            },
                          },
                        }),
                  ),
                ),
              )
            : null,
          h(
            "div",
            { class: "says" },
            lines_.map((text) => h("p", null, text)),
          ),
          wrong && h("p", { class: "wrong", role: "alert" }, wrong),
          h(
            "div",
            { class: "end" },
            h("button", { type: "button", on: { click: () => dialog.close() } }, "Leave it"),
            h("button", { type: "submit", class: danger ? "danger" : "primary", disabled: sending }, action),
          ),
        ),
      ),
    );
  };
  async function submit() {
    if (sending) return;
    sending = true;
    wrong = "";
    show();
    try {
      const answer = await send(values);
      dialog.close();
      toast(typeof done === "function" ? done(answer) : done);
    } catch (error) {
      wrong = wording(error);
      sending = false;
      show();
    }
  }
  dialog.replaceChildren();
  show();
  if (!dialog.open) dialog.showModal();
  const first = dialog.querySelector("input, select") || dialog.querySelector("button[type=submit]");
  if (first) {
    first.focus();
    if (first.select) first.select();
  }
}

export function toast(text) {
  const box = $("#toast");
  box.textContent = text;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => {
    box.textContent = "";
  }, 5000);
}

/* The form to sign in. */
import { $, h } from "../elements.js";
import { refusal } from "../server.js";

let take = null;
/** take(token) signs in, or has the form drawn again with why not. */
export function onSignIn(act) {
  take = act;
}

export const signInForm = () => [
  h(
    "section",
    { class: "panel sign-in" },
    h(
      "form",
      { on: { submit: () => take($("#token").value.trim()) } },
      h("h1", null, "Sign in"),
      h(
        "p",
        { class: "soft" },
        "With a token of this server's token file. It is kept in a cookie that no script can read, for 12 hours.",
      ),
      h(
        "label",
        null,
        "Token",
        h("input", {
          id: "token",
          type: "password",
          autocomplete: "current-password",
          required: true,
          value: "",
        }),
      ),
      refusal && h("p", { class: "banner bad", role: "alert" }, refusal),
      h("button", { type: "submit", class: "primary" }, "Sign in"),
    ),
  ),
];

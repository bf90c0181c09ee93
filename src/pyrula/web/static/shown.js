/* What the view in front of the operator shows. */

export let data = null; // as the server last sent it; null: nothing has come yet
export let problem = null; // why there is nothing to show, in the server's words

export function show(got) {
  problem = got.problem || null;
  if (!problem) data = got.view;
}

export function forgetProblem() {
  problem = null;
}
export function forget() {
  data = problem = null;
}

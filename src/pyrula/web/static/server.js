/* Talking to the server: who is signed in, single calls, and the live view. */
import { setClock, withQuery } from "./words.js";

export let session = null; // who is signed in; null: nobody
export let refusal = ""; // why nobody is, in the server's words
export let unsure = false; // whether it could not be asked

let tell = null;
/** Whom to tell. view(got): each message; status(): `connected` has changed; signedOut(): the token counts no more. */
export function listen(to) {
  tell = to;
}

export async function call(method, path, body) {
  const answer = await fetch(path, {
    method,
    headers: { "X-Pyrula-Page": "1", ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
    body: body === undefined ? undefined : JSON.stringify(body),
    credentials: "same-origin",
  });
  const value = await answer.json().catch(() => ({ detail: `the server answered ${answer.status}` }));
  if (!answer.ok) {
    if (answer.status === 401 && path !== "/ui/session") {
      session = null;
      tell.signedOut();
    }
    throw Object.assign(new Error(value.detail || value.title), { status: answer.status });
  }
  return value;
}

/** What to tell the operator of a call that failed. */
export const wording = (error) =>
  error instanceof TypeError
    ? "The server did not answer. Look whether it was done before you try again."
    : error.message;

/** Tells the browser's other tabs that another, or nobody, is signed in now. */
const tabs = new BroadcastChannel("pyrula");
tabs.onmessage = () => {
  session = null;
  tell.signedOut();
};

/** Ask who is signed in, unless that is known. */
export async function whoLooks() {
  if (!session) {
    try {
      session = await call("GET", "/ui/session");
    } catch (error) {
      session = null;
      unsure = error.status !== 401;
      if (unsure) refusal = error.message;
    }
  }
  if (session) [refusal, unsure] = ["", false];
}

/** Whether the token was taken; if not, `refusal` says why. */
export async function signIn(token) {
  try {
    session = await call("POST", "/ui/session", { token });
    tabs.postMessage("signed in");
    return true;
  } catch (error) {
    refusal = wording(error);
    return false;
  }
}

export async function signOut() {
  await call("DELETE", "/ui/session");
  session = null;
  tabs.postMessage("signed out");
}

export let connected = null; // null until it is known; then whether the live view comes
export let lost = "reconnecting…"; // in which word it does not

let source = null;
let sourceAddress = "";
let retryTimer = 0;
const AGAIN = 1500; // ms until a live view that was refused is asked for again
const PATIENCE = 2000; // ms of a first connection that need no word

/** Have the live view come; view: null for none. */
export function watch(view, query) {
  if (!view) {
    unwatch();
    setConnected(null);
    return;
  }
  const address = withQuery("/ui/live", { view, ...query });
  if (address === sourceAddress && source) return;
  unwatch();
  sourceAddress = address;
  source = new EventSource(address);
  const mine = source;
  setTimeout(() => {
    if (mine === source && connected === null) setConnected(false, "connecting…");
  }, PATIENCE);
  mine.addEventListener("hello", (event) => {
    setClock(JSON.parse(event.data).now);
    setConnected(true);
  });
  mine.addEventListener("message", (event) => {
    if (mine !== source) return;
    setConnected(true);
    tell.view(JSON.parse(event.data));
  });
  mine.addEventListener("error", async () => {
    if (mine !== source) return;
    setConnected(false);
    if (mine.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
    const problem = await refused(address);
    if (mine !== source) return; // the operator has gone elsewhere meanwhile
    if (!problem) {
      clearTimeout(retryTimer);
      retryTimer = setTimeout(() => {
        if (mine !== source) return;
        unwatch();
        watch(view, query);
      }, AGAIN);
      return;
    }
    unwatch();
    if (problem.status === 401) {
      session = null;
      tell.signedOut();
      return;
    }
    setConnected(null);
    tell.view({ problem });
  });
}

/** What the server has against the live view itself; null: nothing, or it can't be asked now, so try again. */
async function refused(address) {
  try {
    const answer = await fetch(address, { credentials: "same-origin" });
    if (answer.status === 401) return { status: 401 };
    if (answer.status >= 400 && answer.status < 500) return await answer.json();
    if (answer.body) answer.body.cancel();
  } catch {
    // no connection, or what a proxy says for the server
  }
  return null;
}

export function unwatch() {
  if (source) source.close();
  source = null;
  sourceAddress = "";
}

function setConnected(is, word = "reconnecting…") {
  if (connected === is && lost === word) return;
  [connected, lost] = [is, word];
  tell.status();
}

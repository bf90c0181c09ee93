/* Where the operator is, and how he gets elsewhere without a reload. */

export const NAV = [
  ["overview", "Overview", "o", "/ui"],
  ["gates", "Gates", "g", "/ui/gates"],
  ["runs", "Runs", "r", "/ui/runs"],
  ["buffers", "Buffers", "b", "/ui/buffers"],
  ["schedules", "Schedules", "s", "/ui/schedules"],
  ["workers", "Workers", "w", "/ui/workers"],
  ["workflows", "Workflows", "f", "/ui/workflows"],
];

export let route = { view: "overview", path: "/ui", query: {} };

/** The route of the address. view: null where there is none. */
function parse() {
  const [, , view, name] = location.pathname.split("/");
  const query = Object.fromEntries(new URLSearchParams(location.search));
  if ((view === "gates" || view === "runs") && name) {
    const one = view === "gates" ? "gate" : "run";
    return {
      view: one,
      path: location.pathname,
      query,
      watch: { name: decoded(name), ...(one === "gate" ? { key: query.key || "" } : {}) },
    };
  }
  const known = view ? NAV.find(([id]) => id === view) : NAV[0];
  return { view: known && !name ? known[0] : null, path: location.pathname, query, watch: query };
}

/** As it was meant, or as it was typed if that means nothing. */
function decoded(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** Take the route from the address bar; whether it is another view, or of another thing, than before. */
export function readRoute() {
  const before = route;
  route = parse();
  return before.view !== route.view || before.path !== route.path;
}

let arrive = null;
/** arrive(moved) is called whenever the address has changed; moved: by a step that Back undoes. */
export function onArrival(act) {
  arrive = act;
}

export function go(href, replace) {
  window.history[replace ? "replaceState" : "pushState"](null, "", href);
  arrive(!replace);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest && event.target.closest("a[href^='/ui']");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey)
    return;
  event.preventDefault();
  go(link.getAttribute("href"));
});
addEventListener("popstate", () => arrive(true));

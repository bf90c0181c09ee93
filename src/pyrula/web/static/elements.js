/* Elements, and how the page is changed with as few changes as can be. */

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "rect", "path", "line", "circle", "g"]);

/** An element. Props: attributes; `on`: {event: handler}; `key`: identity among its siblings. */
export function h(tag, props, ...children) {
  const el = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") el._on = value;
    else if (name === "key") el._key = String(value);
    else if (name === "value") {
      el.value = value;
      el.setAttribute("value", value);
    } else el.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(9)) {
    if (child === null || child === undefined || child === false) continue;
    el.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return el;
}

/** Make `old` look like `fresh` with as few changes as can be: focus, selection, charts and hovering survive. */
export function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || old._key !== fresh._key) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  old._on = fresh._on;
  const typing = old === document.activeElement && /^(INPUT|SELECT|TEXTAREA)$/.test(old.nodeName);
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of [...fresh.attributes])
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (old.hasAttribute("data-keep")) return;
  morphChildren(old, fresh);
  if (!typing && "value" in fresh && /^(INPUT|SELECT)$/.test(old.nodeName) && old.value !== fresh.value)
    old.value = fresh.value;
}

export function morphChildren(old, fresh) {
  const keyed = new Map();
  for (const child of old.childNodes) if (child._key !== undefined) keyed.set(child._key, child);
  let at = old.firstChild;
  for (const want of [...fresh.childNodes]) {
    const known = want._key === undefined ? undefined : keyed.get(want._key);
    if (known && known !== at) old.insertBefore(known, at);
    const here = known || at;
    if (!here) {
      old.append(want);
      continue;
    }
    const next = here.nextSibling;
    if (!known && want._key !== undefined) {
      old.insertBefore(want, here);
      continue;
    }
    morph(here, want);
    at = next;
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

for (const type of ["click", "submit", "input", "change"]) {
  document.addEventListener(type, (event) => {
    for (let el = event.target; el && el !== document; el = el.parentNode) {
      if (el._on && el._on[type]) {
        if (type === "submit") event.preventDefault();
        el._on[type](event);
        return;
      }
    }
  });
}

export const $ = (selector) => document.querySelector(selector);

"use strict";
// Elements and numbers. Names of tensors reach the page only as text.

const $ = id => document.getElementById(id);

// el returns an element with properties and children; strings become text.
function el(tag, props, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(props || {})) {
    if (k === "style") Object.assign(e.style, v);
    else if (k.includes("-") || k === "role" || k === "scope") e.setAttribute(k, v);
    else e[k] = v;
  }
  e.append(...children.filter(c => c !== null && c !== undefined));
  return e;
}

// comma writes a number with separators, human one of bytes with a unit, as the text of a plan has them.
const comma = n => String(Math.round(n)).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
function human(n) {
  if (n < 0) return "−" + human(-n);
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let k = 0, v = n;
  while (v >= 1024 && k < units.length - 1) { v /= 1024; k++; }
  return (k && v < 9.95 ? v.toFixed(1) : Math.round(v)) + " " + units[k];
}
const bytes = n => n === 1 ? "1 byte" : comma(n) + " bytes" + (n >= 1024 ? " (" + human(n) + ")" : "");
const percent = (n, of) => of > 0 ? (n === 0 || 1000 * n >= of / 2 ? (100 * n / of).toFixed(1) + " %" : "<0.1 %") : "–";
const signed = n => n > 0 ? "+" + comma(n) : n < 0 ? "−" + comma(-n) : "0";

// label returns layer/name, or the name alone if it contains the layer.
function label(owner, name) {
  if (!owner || owner === name || name.includes(owner + "/")) return name;
  return name ? owner + "/" + name : owner;
}

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// onColour returns a colour for letters on a box.
function onColour(hex) {
  const v = [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
  return 0.299 * v[0] + 0.587 * v[1] + 0.114 * v[2] > 150 ? "#1f2328" : "#ffffff";
}

// table returns a table. Cells are texts, or numbers of bytes, which keep their value in data-bytes.
function table(caption, heads, rows, total) {
  const cell = (c, i) => {
    if (typeof c === "number") return el("td", { "data-bytes": c }, comma(c));
    return c instanceof Node ? c : el("td", i === 0 ? { className: "text", title: c } : null, c);
  };
  const line = (r, cls) => el("tr", { className: cls || "" }, ...r.map(cell));
  return el("div", { className: "scroll" }, el("table", null, el("caption", null, caption),
    el("thead", null, el("tr", null, ...heads.map(h => el("th", { scope: "col" }, h)))),
    el("tbody", null, ...rows.map(r => line(r)), ...(total ? [line(total, "total")] : []))));
}

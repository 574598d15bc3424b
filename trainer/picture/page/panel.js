// What stands around the maps: details, lists and tables.

const MAX_FOUND = 200;

// showDetails describes a tensor, or an instruction where there is none.
function showDetails(t, view, instruction) {
  const rows = [], add = (name, ...what) => what.some(Boolean) && rows.push(el("dt", null, name), el("dd", null, ...what));
  const p = view.program;
  let title = "Nothing chosen";
  if (t) {
    title = t.label;
    add("region", t.region);
    add("layer", t.owner);
    add("shape", t.spec);
    add("size", bytes(t.bytes));
    add("offset", comma(t.offset) + " in " + t.region + ", " + comma(t.at) + " in the arena");
    if (t.scratch) {
      const name = i => comma(i) + (p.labels[i] ? " " + p.labels[i] : "");
      add("lifetime", t.to - t.from <= 1 ? "instruction " + name(t.from) : "instructions " + name(t.from) + " to " + name(t.to - 1) + ", " + comma(t.to - t.from) + " of " + comma(view.n));
      add("made by", t.op, p.passes[t.from] ? " in the " + passNames[p.passes[t.from]] : "");
    } else add("lifetime", "all of training");
    if (t.lines.length) add("code", el("code", null, t.lines[0]), ...t.lines.slice(1).flatMap(l => [el("br"), el("span", { className: "faint" }, "called at "), el("code", null, l)]));
  } else if (p && instruction >= 0 && instruction < view.n) {
    title = "Instruction " + comma(instruction);
    add("label", p.labels[instruction]);
    add("operation", p.ops[instruction]);
    add("pass", passNames[p.passes[instruction]]);
    add("live", bytes(liveAt(p, instruction)));
    if (instruction === p.peak) add("", "the peak");
  }
  const hint = rows.length ? null : el("p", { className: "faint" }, "Move over a box of the map.");
  $("details").replaceChildren(el("h2", null, title), hint || "", el("dl", null, ...rows));
}

// showLayers lists the layers, with their parts of regions and what they have at the peak of the first
// plan's program. The last row has the rest of scratch, so that the sum is the arena.
function showLayers() {
  const plan = data.plans[0], live = new Map(views[0].program ? Object.entries(views[0].program.atpeak) : []);
  const names = [...new Set([...plan.layers.map(l => l.name), ...views.flatMap(v => v.items.map(t => t.owner))])].filter(n => n !== "");
  const rest = [...live].reduce((n, [name, b]) => name ? n - b : n, 0);
  if (views.length > 1) $("layers").previousElementSibling.textContent = "Layers of " + plan.name;
  $("layers").replaceChildren(...names.concat("").map(name => {
    const l = plan.layers.find(l => l.name === name), size = (l ? l.total : 0) + (name ? live.get(name) || 0 : rest);
    return el("button", {
      className: "row", title: name ? human(l ? l.total : 0) + " in regions, " + human(live.get(name) || 0) + " of scratch at the peak" : "shared by all, padding, and what is free at the peak",
      "aria-pressed": String(state.layer === name), onclick: () => chooseLayer(state.layer === name ? null : name),
    }, el("span", { className: "swatch", style: { background: colourOf.get(name) || colourOf.get("") } }), el("span", null, name || "no layer"),
      el("span", { "data-bytes": size }, human(size)));
  }));
}

// showFound lists what the search finds.
function showFound() {
  const box = $("found");
  box.hidden = state.query === "";
  if (box.hidden) return;
  const found = views.flatMap(v => v.items.filter(t => shown(t) && t.bytes).map(t => [t, v]));
  const sum = found.reduce((n, [t]) => n + t.bytes, 0);
  box.replaceChildren(el("h2", { role: "status" }, comma(found.length) + " found, " + human(sum) + (found.length > MAX_FOUND ? "; the first " + MAX_FOUND : "")),
    el("div", null, ...found.slice(0, MAX_FOUND).map(([t, v]) => el("button", {
      className: "row", onclick: () => { select(t, v); v.fitItems([t]); render(); },
    }, el("span", { className: "swatch", style: { background: fill(t) } }), el("span", { title: t.label + ", " + t.region }, t.label), el("span", null, human(t.bytes))))));
}

// showTables writes the tables of each plan, whose columns add up to its arena.
function showTables() {
  const boxes = [];
  for (const view of views) {
    const plan = view.plan, name = views.length > 1 ? plan.name + ": " : "";
    boxes.push(table(name + "regions", ["region", "bytes", "", "share"], plan.regions.map(r => [r.name, r.bytes, human(r.bytes), percent(r.bytes, plan.total)]),
      ["arena", plan.total, human(plan.total), percent(plan.total, plan.total)]));
    boxes.push(table(name + "layers in regions", ["layer", "bytes", "", "share"], plan.layers.map(l => [l.name || "shared by all", l.total, human(l.total), percent(l.total, plan.total)]),
      ["arena", plan.total, human(plan.total), percent(plan.total, plan.total)]));
    boxes.push(table(name + "programs", ["program", "instructions", "scratch", "peak live", "at instruction"], plan.programs.map(p => [
      p.name, comma(p.instructions), p.scratch, p.live, el("td", { className: "text", title: p.labels[p.peak] || "" }, p.labels[p.peak] || "")])));
    const outside = [["pinned host memory", plan.pinned], ["of it, offloaded", plan.offloaded], ["device context", plan.context]].filter(r => r[1] > 0);
    if (outside.length) boxes.push(table(name + "outside the arena", ["memory", "bytes", ""], outside.map(([n, b]) => [n, b, human(b)])));
    const notes = plan.programs.flatMap(p => p.notes.map(n => el("li", null, p.name + ": " + n)));
    if (notes.length) boxes.push(el("details", { className: "wide" }, el("summary", null, name + "remarks of the compiler (" + notes.length + ")"), el("ul", null, ...notes)));
    boxes.push(listOf(view, name));
  }
  $("tables").replaceChildren(...boxes);
}

// listOf returns a table of all tensors of a view, which is filled when it is opened, 500 rows at a time.
function listOf(view, name) {
  const box = el("div"), all = el("details", { className: "wide" }, el("summary", null, name + "all tensors as a table"), box);
  const fillTo = n => {
    const rows = view.items.slice().sort((a, b) => b.bytes - a.bytes).slice(0, n);
    box.replaceChildren(table("largest first", ["tensor", "region", "shape", "bytes", "offset", "instructions"], rows.map(t => [
      t.label, el("td", { className: "text" }, t.region), el("td", { className: "text" }, t.spec), t.bytes, comma(t.offset), t.scratch ? t.from + "–" + (t.to - 1) : "all"])),
      ...(rows.length < view.items.length ? [el("button", { onclick: () => fillTo(n + 500) }, "500 more of " + comma(view.items.length))] : []));
  };
  all.addEventListener("toggle", () => { if (all.open && !box.firstChild) fillTo(500); });
  return all;
}

// showDifference lists what differs between two plans.
function showDifference() {
  const d = data.changes;
  if (!d) return;
  const [a, b] = data.plans;
  const delta = (x, y) => el("td", { className: y > x ? "more" : y < x ? "less" : "", "data-bytes": y - x }, signed(y - x));
  const rows = (list, none) => list.map(c => [c.name || none, c.a, c.b, delta(c.a, c.b)]);
  const sum = (list, k) => list.reduce((n, c) => n + c[k], 0);
  const total = (name, list) => [name, sum(list, "a"), sum(list, "b"), delta(sum(list, "a"), sum(list, "b"))];
  const heads = first => [first, a.name, b.name, "difference"];
  const saved = b.total - a.total;
  const change = saved === 0 ? " needs as many bytes" : " needs " + human(Math.abs(saved)) + (saved > 0 ? " more" : " less") + " (" + signed(saved) + " bytes, " +
    percent(Math.abs(saved), a.total) + " of the arena)";
  const text = b.name + change + (d.time ? "; the estimated time of a step changes by " + (d.time > 0 ? "+" : "−") + (100 * Math.abs(d.time)).toFixed(1) + " %" : "") + ".";
  $("difference").replaceChildren(el("div", { className: "wide card" }, el("h2", null, "Difference"), el("p", null, text),
    d.recomputed.length ? el("p", { className: "faint" }, "Recomputed for the backward pass: " + d.recomputed.join(", ") + ".") : ""),
    table("regions", heads("region"), rows(d.regions, ""), total("arena", d.regions)),
    table("live at the peak of the first program, by layer", heads("layer"), rows(d.live, "no layer"), total("peak", d.live)));
}

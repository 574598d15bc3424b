// The data of the page, and its state.

const data = JSON.parse($("data").textContent);
const colourOf = new Map(data.colours);
const regionColours = {
  "parameters": "#4e79a7", "gradients": "#f28e2b", "optimizer state": "#b07aa1", "running statistics": "#76b7b2", "averages": "#9c755f",
  "slot": "#59a14f", "results": "#edc948", "resident data": "#ff9da7", "prepacked weights": "#86bcb6", "captured state": "#d37295", "scratch": "#8aa0b8",
};
const category = name => name.replace(/ *\d+$/, "");
const state = { colour: "layer", query: "", layer: null, hover: null, selected: null };

// fill returns the colour of a tensor.
function fill(t) {
  return state.colour === "layer" ? colourOf.get(t.owner) || colourOf.get("") : regionColours[category(t.region)] || "#8aa0b8";
}

// shown reports whether a tensor is among those that the search and the chosen layer select.
function shown(t) {
  return (state.layer === null || t.owner === state.layer) && (!state.query || t.text.includes(state.query));
}
const filtered = () => state.layer !== null || state.query !== "";

// tensors returns the boxes of a plan while one of its programs runs. at is from the start of the arena.
function tensors(plan, program) {
  const all = [], scratch = scratchOf(plan), n = program ? Math.max(program.instructions, 1) : 1;
  const add = (region, t, from, to, op) => all.push({
    region: region.name, owner: t.o, name: t.n, label: label(t.o, t.n), spec: t.s, lines: data.lines[t.l] || [],
    at: region.at + t.at, offset: t.at, bytes: t.b, from, to, op, scratch: op !== null,
    text: [t.o, t.n, t.s, op || "", region.name, (data.lines[t.l] || []).join(" ")].join("\n").toLowerCase(),
  });
  for (const r of plan.regions) {
    for (const t of r.parts) add(r, t, 0, n, null);
    if (r === scratch && program) for (const b of program.buffers) add(r, b, b.f, b.t, program.ops[b.f] || "");
  }
  return all;
}

// scratchOf returns the region that programs share; the first one of a predictor, which has one for each view.
function scratchOf(plan) { return plan.regions.find(r => category(r.name) === "scratch" && r.bytes > 0) || { name: "scratch", at: 0, bytes: plan.total }; }

// liveAt returns the bytes of scratch that are live at an instruction.
function liveAt(program, i) {
  let lo = 0, hi = program.livebytes.length;
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if (program.livebytes[mid][0] <= i) lo = mid + 1; else hi = mid;
  }
  return lo ? program.livebytes[lo - 1][1] : 0;
}

const passNames = { f: "forward pass", r: "recomputed for the backward pass", b: "backward pass and update" };
const passColours = { f: "#7ea6cf", r: "#e3b341", b: "#8b949e" };

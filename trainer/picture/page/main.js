// The page: what its controls do.

const views = data.plans.map((p, i) => new View(p, i));

// render draws all maps before the next frame; with marks only, what is under the pointer and chosen.
let waiting = false, all = false;
function render(marks) {
  all = all || marks !== "marks";
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    const whole = all;
    waiting = all = false;
    for (const v of views) if (whole || !v.copy) v.draw(); else v.drawMarks();
  });
}

function hover(t, view, instruction) {
  if (t === state.hover && (t || state.selected)) return;
  state.hover = t;
  if (t || !state.selected) showDetails(t, view, instruction);
  else showDetails(state.selected, views.find(v => v.items.includes(state.selected)) || view, -1);
  render("marks");
}

function select(t, view) {
  state.selected = t;
  showDetails(t, view, -1);
  render("marks");
}

// chooseLayer shows one layer, or all for null, and zooms to what it has in scratch.
function chooseLayer(name) {
  state.layer = name;
  for (const v of views) {
    const own = v.items.filter(t => t.owner === name && t.bytes), scratch = own.filter(t => t.scratch);
    if (name === null) v.fitScratch();
    else v.fitItems(scratch.length ? scratch : own);
  }
  showLayers();
  if (state.query) showFound();
  render();
}

function search(query) {
  state.query = query.trim().toLowerCase();
  showFound();
  render();
}

function clear() {
  $("search").value = "";
  state.selected = state.hover = state.layer = null;
  showLayers();
  search("");
  showDetails(null, views[0], -1);
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  render();
}

// goTo selects the tensor that the address names: plan.html#hidden1/act.
function goTo() {
  let name = location.hash.slice(1);
  try { name = decodeURIComponent(name); } catch { return; }
  for (const v of views) {
    const t = v.items.find(t => t.label === name && t.scratch) || v.items.find(t => t.label === name);
    if (t) return select(t, v);
  }
}

function start() {
  const first = data.plans[0];
  $("title").textContent = data.plans.length > 1 ? first.name + " and " + data.plans[1].name : "One arena of " + human(first.total);
  $("title").title = $("subtitle").title = data.plans.map(p => p.fullname).join(" and ");
  $("subtitle").textContent = data.plans.length > 1 ? "Two plans on one scale: " + data.plans.map(p => comma(p.total) + " bytes").join(" and ") :
    first.name + ": " + comma(first.total) + " bytes on " + first.device + ", " + first.mode + " data";
  $("plans").classList.toggle("many", views.length > 1);
  $("plans").append(...views.map(v => v.figure));
  $("program").append(...first.programs.map((p, i) => el("option", { value: i }, p.name)));
  $("program").addEventListener("change", e => {
    state.selected = state.hover = null;
    for (const v of views) v.show(Number(e.target.value));
    showLayers();
    showTables();
    search(state.query);
    showDetails(null, views[0], -1);
  });
  $("colours").addEventListener("change", e => { state.colour = e.target.value; showFound(); render(); });
  $("search").addEventListener("input", e => search(e.target.value));
  $("search").addEventListener("keydown", e => { const hit = $("found").querySelector("button"); if (e.key === "Enter" && hit) hit.click(); });
  const each = f => () => { for (const v of views) f(v); render(); };
  $("in").addEventListener("click", each(v => v.zoom(0.7, 0.7)));
  $("out").addEventListener("click", each(v => v.zoom(1 / 0.7, 1 / 0.7)));
  $("scratch").addEventListener("click", each(v => v.fitScratch()));
  $("arena").addEventListener("click", each(v => v.fitArena()));
  $("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  document.addEventListener("keydown", e => {
    if (e.key === "Escape") clear();
    else if (e.key === "/" && e.target !== $("search")) { e.preventDefault(); $("search").focus(); }
  });
  new ResizeObserver(() => render()).observe($("plans"));
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
  setTheme(dark.matches ? "dark" : "light");
  showDetails(null, views[0], -1);
  showLayers();
  showTables();
  showDifference();
  addEventListener("hashchange", goTo);
  goTo();
}

start();

'use strict';
(() => {
const byId = id => document.getElementById(id);
// make returns an element. Text is never parsed as HTML: names come from models and data.
const make = (tag, className, text) => {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
};
const colours = 8;
const colour = i => getComputedStyle(document.documentElement).getPropertyValue('--c' + i % colours).trim();
const css = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();

// Numbers for people.
const bytes = v => {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (Math.abs(v) >= 1024 && i < units.length - 1) { v /= 1024; i++; }
  return (i === 0 || v >= 100 ? Math.round(v) : v >= 10 ? v.toFixed(1) : v.toFixed(2)) + ' ' + units[i];
};
const plain = v => {
  if (typeof v === 'string') return v; // NaN, +Inf and -Inf
  if (v === null || v === undefined || !isFinite(v)) return '–';
  const a = Math.abs(v);
  if (a !== 0 && (a < 1e-4 || a >= 1e7)) return Number(v.toPrecision(3)).toExponential().replace('e+', 'e');
  if (a >= 1000) return Math.round(v).toLocaleString('en');
  return String(Number(v.toPrecision(4)));
};
const time = s => {
  s = Math.max(0, s);
  const h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60, r = Math.floor(s % 60), two = n => String(n).padStart(2, '0');
  return h ? h + ':' + two(m) + ':' + two(r) : m + ':' + two(r);
};
const shown = (chart, v) => v === null ? '–' : chart.unit === 'bytes' ? bytes(v) : chart.unit === '%' ? (100 * v).toFixed(2) + ' %' : plain(v);

let runs = [], cards = new Map(), smoothing = 0.9;
const hiddenRuns = new Set();
const several = () => runs.length > 1;

// Axes.
function ticks(low, high, count) {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(f => f * power).find(s => s >= raw);
  const all = [];
  for (let t = Math.ceil(low / step) * step; t <= high + step * 1e-9; t += step) all.push(Math.abs(t) < step * 1e-9 ? 0 : t);
  return all;
}
function timeTicks(low, high, count) {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400];
  const raw = (high - low) / count, step = raw < 1 ? 0 : steps.find(s => s >= raw);
  if (!step) return ticks(low, high, count);
  const all = [];
  for (let t = Math.ceil(low / step) * step; t <= high; t += step) all.push(t);
  return all;
}
function logTicks(low, high) {
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high)), all = [];
  const every = Math.max(1, Math.ceil((last - first) / 6));
  for (let d = first; d <= last; d++) {
    if ((d - first) % every) continue;
    for (const f of last - first <= 2 ? [1, 2, 5] : [1]) {
      const t = f * 10 ** d;
      if (t >= low * 0.999 && t <= high * 1.001) all.push(t);
    }
  }
  return all.length > 1 ? all : [low, high];
}
function byteTicks(high) {
  let unit = 1;
  while (high / unit >= 1024) unit *= 1024;
  return ticks(0, high / unit, 4).map(t => t * unit);
}

// A line is what is drawn: a series of a run with its colour.
function linesOf(card) {
  const lines = [];
  runs.forEach((run, r) => {
    if (hiddenRuns.has(r)) return;
    const chart = run.charts.find(c => c.id === card.id);
    if (!chart) return;
    chart.series.forEach((s, i) => {
      // A series of steps has the colour of the run, or that of its place.
      lines.push({series: s, colour: colour(several() ? r : i), name: s.name || chart.title.toLowerCase(), run: run.name, dash: several() && i > 1 ? [5, 3] : []});
    });
  });
  return lines;
}
// smooth returns exponential means of the values, without the bias to the first one.
function smooth(points, weight) {
  let sum = 0, norm = 0;
  return points.map(([x, y]) => {
    if (y === null) return [x, null];
    sum = weight * sum + (1 - weight) * y;
    norm = weight * norm + (1 - weight);
    return [x, sum / norm];
  });
}

function newCard(chart) {
  const root = make('div', 'card chart'), head = make('div', 'head'), canvas = make('canvas'), legend = make('div', 'legend');
  root.dataset.chart = chart.id;
  head.append(make('h2', '', chart.title));
  const card = {id: chart.id, chart, root, canvas, legend, log: !!chart.log, visible: true, dirty: true, hover: null};
  if (!chart.stacked && chart.unit !== 'bytes') {
    const b = make('button', '', 'log');
    b.type = 'button';
    b.setAttribute('aria-pressed', card.log);
    b.onclick = () => { card.log = !card.log; b.setAttribute('aria-pressed', card.log); redraw(card); };
    head.append(b);
  }
  canvas.setAttribute('role', 'img');
  canvas.onpointermove = e => { card.hover = e; redraw(card); };
  canvas.onpointerleave = () => { card.hover = null; byId('tip').hidden = true; redraw(card); };
  root.append(head, canvas, legend);
  return card;
}
function updateCards() {
  const parent = byId('charts');
  const order = runs.length ? runs[0].charts.map(c => c.id) : [];
  for (const id of order) {
    const with_ = runs.map(r => r.charts.find(c => c.id === id)).find(c => c && c.series.some(s => s.points.length));
    if (!with_ || cards.has(id)) continue;
    const card = newCard(with_);
    cards.set(id, card);
    const next = order.slice(order.indexOf(id) + 1).map(i => cards.get(i)).find(Boolean);
    parent.insertBefore(card.root, next ? next.root : null);
    seen.observe(card.root);
  }
}
const seen = new IntersectionObserver(entries => {
  for (const e of entries) for (const c of cards.values()) if (c.root === e.target) { c.visible = e.isIntersecting; if (c.visible && c.dirty) schedule(); }
}, {rootMargin: '200px'});

let scheduled = false;
function schedule() {
  if (scheduled || document.hidden) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    for (const c of cards.values()) if (c.dirty && c.visible) { c.dirty = false; draw(c); }
  });
}
function redraw(card) { card.dirty = true; schedule(); }
function redrawAll() { for (const c of cards.values()) c.dirty = true; schedule(); }
document.addEventListener('visibilitychange', schedule);
addEventListener('resize', redrawAll);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redrawAll);

function range(lines, log) {
  let low = Infinity, high = -Infinity, first = Infinity, last = -Infinity;
  for (const l of lines) for (const [x, y] of l.points) {
    if (x < first) first = x;
    if (x > last) last = x;
    if (y === null || log && y <= 0) continue;
    if (y < low) low = y;
    if (y > high) high = y;
  }
  return {low, high, first, last};
}
function stack(lines) {
  const sums = new Map();
  for (const l of lines) {
    l.base = l.points.map(([x]) => [x, sums.get(x) || 0]);
    l.points = l.points.map(([x, y]) => { const sum = (sums.get(x) || 0) + (y || 0); sums.set(x, sum); return [x, sum, y]; });
  }
}

function draw(card) {
  const {canvas, chart} = card, ratio = devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
  if (!w) { card.dirty = true; return; }
  if (canvas.width !== Math.round(w * ratio)) canvas.width = Math.round(w * ratio);
  if (canvas.height !== Math.round(h * ratio)) canvas.height = Math.round(h * ratio);
  const g = canvas.getContext('2d');
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, w, h);
  const lines = linesOf(card).map(l => ({...l, points: l.series.points}));
  const stacked = chart.stacked && !several();
  if (stacked) stack(lines);
  const log = card.log;
  let {low, high, first, last} = range(lines, log);
  if (!(first <= last)) return;
  if (!(low <= high)) { low = log ? 0.1 : 0; high = 1; }
  if (chart.unit === 'bytes') { low = 0; high = high * 1.05 || 1; }
  else if (chart.stacked) { low = 0; high = 1; }
  else if (log) { if (high < low * 1.1) { low /= 1.25; high *= 1.25; } }
  else { const margin = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1; low -= low >= 0 && low < margin ? low : margin; high += margin; }
  if (chart.unit === '%') high = Math.min(high, 1);
  if (high <= low) high = low + 1e-9;
  if (first === last) { first -= 0.5; last += 0.5; }
  const yTicks = chart.unit === 'bytes' ? byteTicks(high) : log ? logTicks(low, high)
    : chart.unit === '%' ? ticks(100 * low, 100 * high, 4).map(t => t / 100) : ticks(low, high, 4);
  const yLabel = v => chart.unit === 'bytes' ? bytes(v) : chart.unit === '%' ? Number((100 * v).toPrecision(6)) + ' %' : plain(v);
  g.font = '11px system-ui, sans-serif';
  const left = Math.max(...yTicks.map(t => g.measureText(yLabel(t)).width), 20) + 10, right = w - 10, top = 8, bottom = h - 22;
  const X = x => left + (x - first) / (last - first) * (right - left);
  const Y = log ? y => bottom - (Math.log(y) - Math.log(low)) / (Math.log(high) - Math.log(low)) * (bottom - top)
    : y => bottom - (y - low) / (high - low) * (bottom - top);
  g.lineWidth = 1;
  g.strokeStyle = css('grid');
  g.fillStyle = css('soft');
  g.textAlign = 'right';
  g.textBaseline = 'middle';
  for (const t of yTicks) {
    g.beginPath(); g.moveTo(left, Y(t)); g.lineTo(right, Y(t)); g.stroke();
    g.fillText(yLabel(t), left - 6, Y(t));
  }
  g.textAlign = 'center';
  g.textBaseline = 'top';
  const xLabel = v => chart.axis === 'seconds' ? last - first < 6 ? plain(v) + ' s' : time(v) : plain(v);
  for (const t of (chart.axis === 'seconds' ? timeTicks : ticks)(first, last, Math.max(2, Math.floor(w / 110)))) {
    const text = xLabel(t), half = g.measureText(text).width / 2;
    g.fillText(text, Math.min(Math.max(X(t), left + half - 6), right - half + 8), bottom + 7);
  }
  g.save();
  g.beginPath(); g.rect(left - 4, top - 4, right - left + 8, bottom - top + 8); g.clip();
  for (const l of lines) drawLine(g, l, X, Y, log, stacked);
  g.restore();
  if (card.hover) hover(card, g, lines, X, {left, right, top, bottom, first, last}, stacked);
  legend(card, lines);
}
function path(g, points, X, Y, log) {
  g.beginPath();
  let pen = false;
  for (const [x, y] of points) {
    if (y === null || log && y <= 0) { pen = false; continue; }
    if (pen) g.lineTo(X(x), Y(y)); else g.moveTo(X(x), Y(y));
    pen = true;
  }
}
function drawLine(g, l, X, Y, log, stacked) {
  g.strokeStyle = g.fillStyle = l.colour;
  g.lineJoin = 'round';
  g.setLineDash(l.dash);
  if (stacked) {
    path(g, l.points, X, Y, false);
    for (let i = l.base.length - 1; i >= 0; i--) g.lineTo(X(l.base[i][0]), Y(l.base[i][1]));
    g.closePath();
    g.globalAlpha = 0.75; g.fill(); g.globalAlpha = 1;
    return;
  }
  if (l.series.style === 'faint') {
    g.globalAlpha = smoothing > 0 ? 0.22 : 0.7; g.lineWidth = 1;
    path(g, l.points, X, Y, log); g.stroke(); g.globalAlpha = 1;
    if (smoothing > 0) { g.lineWidth = 1.6; path(g, smooth(l.points, smoothing), X, Y, log); g.stroke(); }
  } else {
    g.lineWidth = 1.6;
    path(g, l.points, X, Y, log); g.stroke();
  }
  g.setLineDash([]);
  if (l.series.style === 'dotted' || l.points.length === 1) for (const [x, y] of l.points) {
    if (y === null || log && y <= 0) continue;
    g.beginPath(); g.arc(X(x), Y(y), l.points.length > 60 ? 2 : 3.2, 0, 7); g.fill();
  }
}
function nearest(points, x) {
  let a = 0, b = points.length - 1;
  while (a < b) { const m = (a + b) >> 1; if (points[m][0] < x) a = m + 1; else b = m; }
  return a > 0 && Math.abs(points[a - 1][0] - x) < Math.abs(points[a][0] - x) ? points[a - 1] : points[a];
}
function hover(card, g, lines, X, box, stacked) {
  const rect = card.canvas.getBoundingClientRect(), at = card.hover.clientX - rect.left;
  const x = box.first + (at - box.left) / (box.right - box.left) * (box.last - box.first);
  const found = lines.filter(l => l.points.length).map(l => ({l, p: nearest(l.points, x)}));
  if (!found.length) return;
  const best = found.reduce((a, b) => Math.abs(b.p[0] - x) < Math.abs(a.p[0] - x) ? b : a).p[0];
  g.strokeStyle = css('soft'); g.lineWidth = 1; g.setLineDash([3, 3]);
  g.beginPath(); g.moveTo(X(best), box.top); g.lineTo(X(best), box.bottom); g.stroke(); g.setLineDash([]);
  const tip = byId('tip'), axis = card.chart.axis;
  tip.replaceChildren(make('div', '', axis === 'seconds' ? time(best) : axis + ' ' + plain(best)));
  for (const {l, p} of found.slice(0, 14)) {
    const row = make('div'), swatch = make('i'), value = stacked ? p[2] : p[1];
    swatch.style.background = l.colour;
    row.append(swatch, make('span', '', several() ? l.run + (l.series.name ? ' · ' + l.name : '') : l.name), make('b', '', shown(card.chart, value)));
    tip.append(row);
  }
  tip.hidden = false;
  const size = tip.getBoundingClientRect();
  tip.style.left = (card.hover.clientX + 16 + size.width > innerWidth ? card.hover.clientX - size.width - 12 : card.hover.clientX + 16) + 'px';
  tip.style.top = Math.max(4, Math.min(card.hover.clientY - size.height / 2, innerHeight - size.height - 8)) + 'px';
}
function legend(card, lines) {
  const names = lines.map(l => !several() ? l.name : l.series.name ? l.run + ' · ' + l.name : l.run);
  const key = names.join('\n') + lines.map(l => l.colour).join();
  const last = l => { for (let i = l.series.points.length - 1; i >= 0; i--) if (l.series.points[i][1] !== null) return l.series.points[i][1]; return null; };
  card.canvas.setAttribute('aria-label', card.chart.title + ': ' + lines.map((l, i) => names[i] + ' ' + shown(card.chart, last(l))).join(', '));
  if (card.legendKey === key) return;
  card.legendKey = key;
  card.legend.replaceChildren(...(lines.length === 1 && !lines[0].series.name && !several() ? [] : lines.map((l, i) => {
    const e = make('span'), swatch = make('i');
    swatch.style.background = l.colour;
    e.append(swatch, names[i]);
    return e;
  })));
}

// The numbers above the charts.
function tile(label, number) {
  const e = make('div', 'tile');
  e.append(make('div', 'label', label), make('div', 'number', number));
  e.title = label + ': ' + number;
  return e;
}
const lastOf = (run, id, name) => {
  const c = run.charts.find(c => c.id === id), s = c && c.series.find(s => name === undefined || s.name === name);
  for (let i = s ? s.points.length - 1 : -1; i >= 0; i--) if (s.points[i][1] !== null) return s.points[i][1];
  return null;
};
function tiles() {
  const s = runs[0].state, all = [];
  const number = v => typeof v === 'number' ? plain(v) : v === 'NaN' || v === undefined ? null : v;
  if (s.number) all.push(['Epoch loss', number(s.loss)]);
  if (typeof s.accuracy === 'number' && s.number) all.push(['Epoch accuracy', (100 * s.accuracy).toFixed(2) + ' %']);
  const evaluations = runs[0].charts.find(c => c.id === 'accuracy').series.filter(x => !/(^| )(step|epoch)$/.test(x.name));
  if (evaluations.length) all.push(['Accuracy, ' + evaluations[0].name, shown({unit: '%'}, lastOf(runs[0], 'accuracy', evaluations[0].name))]);
  if (s.speed) all.push(['Samples/s', plain(s.speed)]);
  all.push(['Elapsed', time(s.seconds)]);
  const m = s.memory || {};
  if (m.arena > 0) all.push(['Arena', bytes(m.arena)]);
  if (m.resident > 0) all.push(['Process memory', bytes(m.resident)]);
  const t = s.time || {}, sum = t.data + t.copy + t.compute + t.host;
  if (sum > 0) all.push(['Waits for data', (100 * t.data / sum).toFixed(1) + ' %']);
  if (s.dropped) all.push(['Steps not recorded', plain(s.dropped)]);
  byId('tiles').replaceChildren(...all.filter(a => a[1] !== null).map(a => tile(...a)));
  const p = byId('progress');
  p.replaceChildren();
  if (s.steps) {
    p.append(`epoch ${s.epoch + 1}, step ${plain(s.step)} of ${plain(s.steps)}; ${plain(s.number)} steps in all`);
    const track = make('div', 'track'), part = make('div');
    part.style.width = 100 * s.step / s.steps + '%';
    track.append(part);
    p.append(track);
  }
}
function status() {
  const run = runs[0], e = byId('status'), text = several() ? runs.length + ' runs' : run.state.status;
  e.textContent = text + (run.state.pending ? ', checkpoint pending' : '');
  e.className = 'status ' + (several() ? '' : run.state.status);
  byId('name').textContent = several() ? 'Comparison of runs' : run.name;
  document.title = several() ? 'Comparison of runs' : run.name + ' · ' + text;
  if (run.state.error) say(run.state.error);
}
function table(rows, head) {
  const t = make('table');
  for (const [i, r] of [...(head ? [head] : []), ...rows].entries()) {
    const tr = make('tr', r.className || '');
    r.cells.forEach((c, j) => {
      const cell = make(head && i === 0 || j === 0 ? 'th' : 'td', c.number ? 'n' : '');
      cell.append(...[c.text ?? c].flat());
      tr.append(cell);
    });
    t.append(tr);
  }
  return t;
}
function runTable() {
  const e = byId('runs');
  e.hidden = false;
  e.className = 'card';
  const names = [];
  for (const r of runs) for (const id of ['loss', 'accuracy']) for (const s of r.charts.find(c => c.id === id).series) {
    if (!/(^| )step$/.test(s.name) && !names.some(n => n.id === id && n.name === s.name)) names.push({id, name: s.name});
  }
  const head = {cells: ['Run', 'Started', {number: 1, text: 'Steps'}, {number: 1, text: 'Time'}, ...names.map(n => ({number: 1, text: n.id + ', ' + n.name}))]};
  const rows = runs.map((r, i) => {
    const label = make('label'), box = make('input'), swatch = make('i');
    box.type = 'checkbox';
    box.checked = true;
    box.onchange = () => { if (box.checked) hiddenRuns.delete(i); else hiddenRuns.add(i); redrawAll(); };
    swatch.style.background = `var(--c${i % colours})`;
    label.append(box, ' ', swatch, ' ', r.name);
    return {cells: [{text: [label]}, new Date(r.started).toLocaleString(), {number: 1, text: plain(r.state.number)}, {number: 1, text: time(r.state.seconds)},
      ...names.map(n => ({number: 1, text: shown(r.charts.find(c => c.id === n.id), lastOf(r, n.id, n.name))}))]};
  });
  e.replaceChildren(table(rows, head));
}
function details() {
  const settings = byId('settings'), names = [];
  for (const r of runs) for (const s of r.settings || []) if (!names.includes(s.name)) names.push(s.name);
  settings.hidden = !names.length;
  const value = (r, n) => { const s = (r.settings || []).find(s => s.name === n); return s ? s.value : '–'; };
  const rows = names.map(n => {
    const values = runs.map(r => value(r, n));
    return {className: values.some(v => v !== values[0]) ? 'differs' : '', cells: [n, ...values]};
  });
  settings.replaceChildren(make('h2', '', 'Settings'), table(rows, several() ? {cells: ['', ...runs.map(r => r.name)]} : null));
  const plan = runs[0].plan, e = byId('plan');
  e.hidden = several() || !plan;
  if (!e.hidden) {
    const bar = make('div', 'bar'), rows = [];
    plan.regions.forEach((r, i) => {
      const part = make('div'), swatch = make('i');
      part.style.flex = r.bytes + ' 0 0';
      part.style.background = swatch.style.background = `var(--c${i % colours})`;
      part.title = r.name + ': ' + bytes(r.bytes);
      bar.append(part);
      rows.push({cells: [{text: [swatch, ' ', r.name]}, {number: 1, text: bytes(r.bytes)}]});
    });
    rows.push({cells: ['arena', {number: 1, text: bytes(plan.total)}]});
    if (plan.pinned) rows.push({cells: ['pinned host memory', {number: 1, text: bytes(plan.pinned)}]});
    e.replaceChildren(make('h2', '', 'Planned memory on ' + plan.device), bar, table(rows));
  }
  const files = byId('files');
  files.hidden = !runs[0].files;
  if (runs[0].files) {
    const list = make('p');
    for (const [name, what] of [['metrics.jsonl', 'numbers as JSON lines'], ['curves.svg', 'curves'], ['curves.png', ''], ['time.svg', 'speed and memory'],
      ['time.png', ''], ['plan.txt', 'memory plan'], ['plan.html', 'its picture']]) {
      if (name.startsWith('plan') && !plan) continue;
      const a = make('a', '', name);
      a.href = name;
      list.append(a, what ? ', ' + what : '', make('br'));
    }
    files.replaceChildren(make('h2', '', 'Files'), list, make('p', '', 'As of ' + new Date(runs[0].saved).toLocaleString()));
  }
}
function show() {
  byId('main').hidden = false;
  status();
  updateCards();
  if (several()) runTable(); else tiles();
  details();
  redrawAll();
}
byId('smooth').oninput = e => { smoothing = Number(e.target.value); redrawAll(); };

const say = text => { const m = byId('message'); m.textContent = text; m.hidden = !text; };

// The live page.
let token = '';
const headers = () => ({Authorization: 'Bearer ' + token});
function add(delta) {
  const run = runs[0];
  run.state = delta.state;
  for (const d of delta.points) {
    const chart = run.charts.find(c => c.id === d.chart);
    if (!chart) continue;
    let s = chart.series.find(s => s.name === d.series);
    if (!s) { s = {name: d.series, style: d.style, points: []}; chart.series.push(s); }
    const last = s.points.length ? s.points[s.points.length - 1][0] : -Infinity;
    s.points.push(...d.points.filter(p => p[0] > last)); // a snapshot has the first ones
    if (cards.has(d.chart)) cards.get(d.chart).dirty = true;
  }
  status();
  tiles();
  updateCards();
  schedule();
}
function buttons() {
  const s = runs[0].state, live = s.status !== 'ended' && connected;
  byId('buttons').hidden = false;
  byId('pause').textContent = s.status === 'paused' ? 'Continue' : 'Pause';
  byId('pause').disabled = !live || s.stopping;
  byId('checkpoint').hidden = !s.can.checkpoint;
  byId('checkpoint').disabled = !live || s.pending;
  byId('stop').hidden = !s.can.stop;
  byId('stop').disabled = !live || s.stopping;
}
async function control(what) {
  try {
    const r = await fetch('control/' + what, {method: 'POST', headers: headers()});
    say(r.ok ? '' : (await r.text()).trim());
  } catch (e) { say(String(e.message)); }
}
byId('pause').onclick = () => control(runs[0].state.status === 'paused' ? 'continue' : 'pause');
byId('checkpoint').onclick = () => control('checkpoint');
byId('stop').onclick = () => { if (confirm('Stop the training after this step?')) control('stop'); };

let connected = false;
function event(name, data) {
  if (name === 'snapshot') { runs = JSON.parse(data); show(); } else if (name === 'delta') add(JSON.parse(data));
  buttons();
}
async function read(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    text += value;
    const parts = text.split('\n\n');
    text = parts.pop();
    for (const part of parts) {
      let name = '', data = '';
      for (const line of part.split('\n')) {
        if (line.startsWith('event: ')) name = line.slice(7);
        if (line.startsWith('data: ')) data += line.slice(6);
      }
      if (name) event(name, data);
    }
  }
}
async function listen() {
  for (let wait = 500; ; wait = Math.min(2 * wait, 10000)) {
    try {
      const r = await fetch('events', {headers: headers(), cache: 'no-store'});
      if (r.status === 401) { sessionStorage.removeItem('token'); say('The token is not that of this run.'); return ask(); }
      if (!r.ok) throw new Error((await r.text()).trim());
      connected = true;
      wait = 500;
      say('');
      await read(r);
      connected = false;
      if (runs.length && runs[0].state.status === 'ended') return buttons();
      say('The connection has ended; trying again.');
    } catch (e) {
      connected = false;
      say('No connection to the training: ' + e.message);
    }
    if (runs.length) { byId('status').className = 'status lost'; byId('status').textContent = 'no connection'; buttons(); }
    await new Promise(done => setTimeout(done, wait));
  }
}
function ask() {
  byId('enter').hidden = false;
  byId('use').onclick = () => { token = byId('token').value.trim(); byId('enter').hidden = true; say(''); remember(); listen(); };
  byId('token').onkeydown = e => { if (e.key === 'Enter') byId('use').click(); };
}
const remember = () => sessionStorage.setItem('token', token);

const data = JSON.parse(byId('data').textContent);
if (data) { runs = data; show(); } else {
  // The token is in the fragment of the address, which browsers send to nobody, and only until here.
  token = new URLSearchParams(location.hash.slice(1)).get('token') || '';
  if (token) { remember(); history.replaceState(null, '', location.pathname); } else token = sessionStorage.getItem('token') || '';
  if (token) listen(); else ask();
}
})();

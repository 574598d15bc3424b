// A view of one plan: the arena as a bar, and a map of offsets over instructions.

const margin = { left: 66, right: 10, top: 26, bottom: 34 };

class View {
  constructor(plan, index) {
    this.plan = plan;
    this.index = index;
    this.bar = el("canvas", { className: "bar", title: "", role: "img" });
    this.map = el("canvas", { className: "map", tabIndex: 0, role: "img" });
    this.caption = el("figcaption");
    this.figure = el("figure", null, this.caption, el("div", { className: "canvases" }, this.bar, this.map), legend());
    this.show(0);
    this.listen();
  }

  // show changes the program.
  show(k) {
    this.program = this.plan.programs[Math.min(k, this.plan.programs.length - 1)];
    this.n = this.program ? Math.max(this.program.instructions, 1) : 1;
    this.items = tensors(this.plan, this.program);
    const p = this.program;
    this.caption.replaceChildren(el("b", { title: this.plan.fullname }, this.plan.name), el("span", { className: "faint" }, human(this.plan.total) + " arena" +
      (p ? ", " + human(p.scratch) + " scratch in " + p.name : "")),
      ...(p ? [el("span", { className: "peak" }, "peak " + human(p.live) + " at instruction " + comma(p.peak) + (p.labels[p.peak] ? ", " + p.labels[p.peak] : ""))] : []));
    this.map.setAttribute("aria-label", "Map of " + this.plan.name + ": " + bytes(this.plan.total) + ", " + comma(this.items.length) +
      " tensors over " + comma(this.n) + " instructions. Keys n and p move through them.");
    this.bar.setAttribute("aria-label", "Regions of " + this.plan.name + ": " + this.plan.regions.filter(r => r.bytes).map(r => r.name + " " + human(r.bytes)).join(", "));
    this.fitScratch();
  }

  // The range that the map shows: instructions x0 to x1, bytes y0 to y1.
  fit(x0, x1, y0, y1) {
    const height = heightOf();
    const w = Math.min(Math.max(x1 - x0, Math.min(this.n, 2)), this.n), h = Math.min(Math.max(y1 - y0, 256), height);
    x0 = Math.min(Math.max(x0, 0), this.n - w);
    y0 = Math.min(Math.max(y0, 0), height - h);
    this.v = { x0, x1: x0 + w, y0, y1: y0 + h };
  }
  fitArena() { this.fit(0, this.n, 0, heightOf()); }
  fitScratch() {
    const most = Math.max(...data.plans.map(p => scratchOf(p).bytes));
    const s = scratchOf(this.plan);
    this.fit(0, this.n, s.at, s.at + most);
  }
  fitRegion(r) { this.fit(0, this.n, r.at, r.at + r.bytes); }
  fitItems(items) {
    if (!items.length) return;
    const x0 = Math.min(...items.map(t => t.from)), x1 = Math.max(...items.map(t => t.to));
    const y0 = Math.min(...items.map(t => t.at)), y1 = Math.max(...items.map(t => t.at + t.bytes));
    const dx = Math.max((x1 - x0) * 0.15, 0.5), dy = (y1 - y0) * 0.15;
    this.fit(x0 - dx, x1 + dx, y0 - dy, y1 + dy);
  }
  zoom(fx, fy, at) {
    const { x0, x1, y0, y1 } = this.v, cx = at ? at.x : (x0 + x1) / 2, cy = at ? at.y : (y0 + y1) / 2;
    this.fit(cx - (cx - x0) * fx, cx + (x1 - cx) * fx, cy - (cy - y0) * fy, cy + (y1 - cy) * fy);
  }
  move(dx, dy) {
    const { x0, x1, y0, y1 } = this.v;
    this.fit(x0 + dx * (x1 - x0), x1 + dx * (x1 - x0), y0 + dy * (y1 - y0), y1 + dy * (y1 - y0));
  }

  // Coordinates on the map.
  measure() { [this.w, this.h] = [this.map.clientWidth - margin.left - margin.right, this.map.clientHeight - margin.top - margin.bottom]; }
  x(i) { return margin.left + (i - this.v.x0) / (this.v.x1 - this.v.x0) * this.w; }
  y(at) { return margin.top + this.h - (at - this.v.y0) / (this.v.y1 - this.v.y0) * this.h; }
  position(e) {
    const r = this.map.getBoundingClientRect(), px = e.clientX - r.left, py = e.clientY - r.top;
    return {
      x: this.v.x0 + (px - margin.left) / this.w * (this.v.x1 - this.v.x0), y: this.v.y0 + (margin.top + this.h - py) / this.h * (this.v.y1 - this.v.y0),
      inside: px >= margin.left && px <= margin.left + this.w && py >= margin.top && py <= margin.top + this.h,
    };
  }
  // rect returns the place of a box, at least a pixel large.
  rect(t) {
    const x = this.x(t.from), y = this.y(t.at + t.bytes);
    return [x, y, Math.max(this.x(t.to) - x, 1), Math.max(this.y(t.at) - y, 1)];
  }
  itemAt(p) {
    const sx = (this.v.x1 - this.v.x0) / this.w, sy = (this.v.y1 - this.v.y0) / this.h; // a pixel
    for (let i = this.items.length - 1; i >= 0; i--) {
      const t = this.items[i];
      if (p.x >= t.from && p.x < Math.max(t.to, t.from + sx) && p.y >= t.at && p.y < Math.max(t.at + t.bytes, t.at + sy) && t.bytes) return t;
    }
    return null;
  }

  draw() {
    this.measure();
    this.drawMap(context(this.map));
    this.copy = this.copy || el("canvas");
    [this.copy.width, this.copy.height] = [this.map.width, this.map.height];
    if (this.copy.width && this.copy.height) this.copy.getContext("2d").drawImage(this.map, 0, 0);
    if (state.hover || state.selected) this.drawMarks();
    this.drawBar(context(this.bar));
  }

  drawMap(c) {
    const { x0, x1, y0, y1 } = this.v, [L, T, W, H] = [margin.left, margin.top, this.w, this.h];
    c.fillStyle = css("--map");
    c.fillRect(L, T, W, H);
    this.drawAxes(c);
    c.save();
    c.beginPath();
    c.rect(L, T, W, H);
    c.clip();
    const some = filtered(), names = [];
    for (const t of this.items) {
      if (t.to <= x0 || t.from >= x1 || t.at + t.bytes <= y0 || t.at >= y1 || !t.bytes) continue;
      const [x, y, w, h] = this.rect(t), colour = fill(t), on = !some || shown(t);
      c.globalAlpha = on ? 1 : 0.16;
      c.fillStyle = colour;
      const gap = w > 3 && h > 3 ? 0.8 : 0; // to the next box
      c.fillRect(x, y, w - gap, h - gap);
      if (on && w > 44 && h > 13) names.push([t, Math.max(x, L), y, Math.min(x + w, L + W) - Math.max(x, L), h, colour]);
    }
    c.globalAlpha = 1;
    this.drawNames(c, names);
    this.drawLive(c);
    c.restore();
    this.drawPeak(c);
    c.strokeStyle = css("--line");
    c.lineWidth = 1;
    c.strokeRect(L + 0.5, T + 0.5, W - 1, H - 1);
  }

  // drawMarks draws the map again, from a copy, with outlines of the boxes under the pointer and chosen.
  drawMarks() {
    const c = context(this.map);
    if (this.copy.width && this.copy.height) c.drawImage(this.copy, 0, 0, this.map.clientWidth, this.map.clientHeight);
    c.save();
    c.beginPath();
    c.rect(margin.left, margin.top, this.w, this.h);
    c.clip();
    for (const [t, width] of [[state.hover, 2], [state.selected, 3]]) this.drawOutline(c, t, width);
    c.restore();
  }

  drawNames(c, names) {
    c.font = "11.5px system-ui, sans-serif";
    c.textBaseline = "middle";
    c.textAlign = "left";
    for (const [t, x, y, w, h, colour] of names) {
      const fits = Math.floor((w - 8) / 6.2);
      if (fits < Math.min(5, t.label.length)) continue;
      c.fillStyle = onColour(colour);
      const top = Math.max(y, margin.top), bottom = Math.min(y + h, margin.top + this.h);
      if (bottom - top > 12) c.fillText(t.label.length > fits ? t.label.slice(0, fits - 1) + "…" : t.label, x + 5, (top + bottom) / 2);
    }
  }

  drawAxes(c) {
    const { x0, x1, y0, y1 } = this.v, [L, T, W, H] = [margin.left, margin.top, this.w, this.h];
    c.font = "11px system-ui, sans-serif";
    c.lineWidth = 1;
    let step = 1;
    while ((y1 - y0) / step > 8) step *= 2;
    c.textAlign = "right";
    c.textBaseline = "middle";
    const base = y0 >= scratchOf(this.plan).at ? scratchOf(this.plan).at : 0; // offsets in scratch, or in the arena
    for (let at = Math.ceil((y0 - base) / step) * step; at <= y1 - base; at += step) {
      c.strokeStyle = css("--grid");
      c.beginPath(); c.moveTo(L, this.y(base + at)); c.lineTo(L + W, this.y(base + at)); c.stroke();
      c.fillStyle = css("--faint");
      c.fillText(human(at), L - 9, this.y(base + at));
    }
    for (const r of this.plan.regions) { // regions beside the axis
      const a = Math.max(this.y(r.at + r.bytes), T), b = Math.min(this.y(r.at), T + H);
      if (b <= a) continue;
      c.fillStyle = regionColours[category(r.name)] || "#8aa0b8";
      c.fillRect(L - 5, a, 4, b - a);
    }
    c.textAlign = "center";
    let every = 1;
    for (let k = 0; (x1 - x0) / every > W / 60; k++) every *= k % 3 === 1 ? 2.5 : 2;
    for (let i = Math.ceil(x0 / every) * every; i <= x1; i += every) {
      c.fillStyle = css("--faint");
      c.fillText(comma(i), Math.min(this.x(i), L + W - 8), T + H + 18);
    }
    const passes = this.program ? this.program.passes : "";
    for (let i = Math.max(Math.floor(x0), 0); i < Math.min(Math.ceil(x1), passes.length);) { // passes below
      let k = i + 1;
      while (k < passes.length && passes[k] === passes[i]) k++;
      const a = Math.max(this.x(i), L), b = Math.min(this.x(k), L + W);
      c.fillStyle = passColours[passes[i]] || css("--line");
      c.fillRect(a, T + H + 3, Math.max(b - a, 1), 5);
      i = k;
    }
    c.fillStyle = css("--faint");
    c.fillText("instruction", L + W / 2, T + H + 29);
  }

  drawLive(c) {
    if (!this.program || !this.program.livebytes.length) return;
    const base = scratchOf(this.plan).at;
    c.beginPath();
    let last = this.y(base);
    c.moveTo(this.x(0), last);
    for (const [i, live] of this.program.livebytes) {
      c.lineTo(this.x(i), last);
      last = this.y(base + live);
      c.lineTo(this.x(i), last);
    }
    c.lineTo(this.x(this.n), last);
    for (const [colour, width, alpha] of [["--box", 4, 0.6], ["--ink", 1.6, 1]]) { // a line with a halo
      c.strokeStyle = css(colour);
      c.lineWidth = width;
      c.globalAlpha = alpha;
      c.stroke();
    }
    c.globalAlpha = 1;
  }

  drawOutline(c, t, width) {
    if (!t) return;
    c.strokeStyle = css("--ink");
    c.lineWidth = width;
    const same = this.items.includes(t) ? [t] : this.items.filter(o => o.owner === t.owner && o.name === t.name && o.region === t.region);
    for (const o of same) c.strokeRect(...this.rect(o)); // in the other plan: what has the same name
  }

  drawPeak(c) {
    const p = this.program;
    if (!p || !p.buffers.length) return;
    const x = this.x(p.peak + 0.5), y = this.y(scratchOf(this.plan).at + p.live), [L, T, W, H] = [margin.left, margin.top, this.w, this.h];
    c.beginPath();
    if (x >= L && x <= L + W) { c.moveTo(x, T); c.lineTo(x, T + H); }
    if (y >= T && y <= T + H) { c.moveTo(L, y); c.lineTo(L + W, y); }
    c.strokeStyle = css("--box");
    c.globalAlpha = 0.6;
    c.lineWidth = 3.5;
    c.stroke();
    c.globalAlpha = 1;
    c.strokeStyle = c.fillStyle = css("--alarm");
    c.lineWidth = 1.5;
    c.setLineDash([5, 3]);
    c.stroke();
    c.setLineDash([]);
    c.font = "600 12px system-ui, sans-serif";
    c.textBaseline = "alphabetic";
    c.textAlign = x > L + W / 2 ? "right" : "left";
    if (x >= L && x <= L + W) c.fillText("peak " + human(p.live), x + (x > L + W / 2 ? 4 : -4), T - 8);
  }

  // The bar has the whole arena, with the range of the map marked.
  get barWidth() { return 64; }
  barY(at) { return margin.top + this.h * (1 - at / heightOf()); }
  drawBar(c) {
    const regions = this.plan.regions.filter(r => r.bytes > 0), some = filtered(), w = this.barWidth;
    for (const r of regions) {
      const top = this.barY(r.at + r.bytes);
      c.fillStyle = regionColours[category(r.name)] || "#8aa0b8";
      c.globalAlpha = category(r.name) === "scratch" || state.colour === "region" ? 1 : 0.35;
      c.fillRect(8, top, w, this.barY(r.at) - top);
    }
    for (const t of this.items) {
      if (t.scratch || !t.bytes) continue;
      c.globalAlpha = !some || shown(t) ? 1 : 0.16;
      c.fillStyle = fill(t);
      c.fillRect(8, this.barY(t.at + t.bytes), w, this.barY(t.at) - this.barY(t.at + t.bytes));
    }
    c.globalAlpha = 1;
    for (const r of regions) {
      c.fillStyle = regionColours[category(r.name)] || "#8aa0b8";
      c.fillRect(0, this.barY(r.at + r.bytes), 6, this.barY(r.at) - this.barY(r.at + r.bytes));
      c.fillStyle = css("--box");
      c.fillRect(0, this.barY(r.at + r.bytes) - 0.5, w + 8, 1);
    }
    c.strokeStyle = css("--accent");
    c.lineWidth = 2;
    c.strokeRect(7, this.barY(this.v.y1), w + 2, Math.max(this.barY(this.v.y0) - this.barY(this.v.y1), 2));
    this.drawLabels(c, regions);
  }

  // drawLabels writes the regions next to the bar, moved apart where they are small.
  drawLabels(c, regions) {
    const gap = Math.min(34, (this.h - 8) / Math.max(regions.length - 1, 1)), y = regions.map(r => this.barY(r.at + r.bytes / 2));
    let limit = margin.top + this.h - 10;
    for (let i = 0; i < y.length; i++) { y[i] = Math.min(y[i], limit); limit = y[i] - gap; }
    limit = margin.top + 8;
    for (let i = y.length - 1; i >= 0; i--) { y[i] = Math.max(y[i], limit); limit = y[i] + gap; }
    c.textAlign = "left";
    c.textBaseline = "middle";
    c.lineWidth = 0.8;
    regions.forEach((r, i) => {
      c.strokeStyle = css("--faint");
      c.beginPath(); c.moveTo(this.barWidth + 10, this.barY(r.at + r.bytes / 2)); c.lineTo(this.barWidth + 20, y[i]); c.stroke();
      c.fillStyle = css("--ink");
      c.font = "600 12px system-ui, sans-serif";
      const name = r.name.length > 16 ? r.name.slice(0, 14) + "…" : r.name;
      c.fillText(name, this.barWidth + 24, y[i] - (gap > 25 ? 6 : 0));
      c.fillStyle = css("--faint");
      c.font = "11px system-ui, sans-serif";
      if (gap > 25) c.fillText(human(r.bytes) + " · " + percent(r.bytes, this.plan.total), this.barWidth + 24, y[i] + 8);
    });
  }

  // next selects the box after the selected one, or with a step of -1 the one before, in the order of time.
  next(step) {
    const order = this.items.filter(t => t.bytes && shown(t)).sort((a, b) => b.scratch - a.scratch || a.from - b.from || a.at - b.at);
    if (!order.length) return;
    const i = order.indexOf(state.selected);
    select(order[i < 0 ? (step > 0 ? 0 : order.length - 1) : (i + step + order.length) % order.length], this);
  }

  listen() {
    let drag = null;
    this.map.addEventListener("pointerdown", e => { drag = { x: e.clientX, y: e.clientY, v: this.v, moved: false }; this.map.setPointerCapture(e.pointerId); });
    this.map.addEventListener("pointermove", e => {
      if (drag && Math.abs(e.clientX - drag.x) + Math.abs(e.clientY - drag.y) > 3) drag.moved = true;
      if (drag && drag.moved) {
        const { x0, x1, y0, y1 } = drag.v, dx = (drag.x - e.clientX) / this.w * (x1 - x0), dy = (e.clientY - drag.y) / this.h * (y1 - y0);
        this.fit(x0 + dx, x1 + dx, y0 + dy, y1 + dy);
        return render();
      }
      const p = this.position(e);
      hover(p.inside ? this.itemAt(p) : null, this, p.inside ? Math.floor(p.x) : -1);
    });
    this.map.addEventListener("pointerup", e => {
      if (drag && !drag.moved) select(this.itemAt(this.position(e)), this);
      drag = null;
    });
    this.map.addEventListener("pointerleave", () => hover(null, this, -1));
    this.map.addEventListener("dblclick", e => { const t = this.itemAt(this.position(e)); if (t) { this.fitItems([t]); render(); } });
    this.map.addEventListener("wheel", e => {
      e.preventDefault();
      const f = Math.exp(Math.max(-1, Math.min(1, (e.deltaY || e.deltaX) / 300)));
      this.zoom(e.altKey ? 1 : f, e.shiftKey ? 1 : f, this.position(e));
      render();
    }, { passive: false });
    this.map.addEventListener("keydown", e => {
      const done = keys[e.key];
      if (!done || e.ctrlKey || e.metaKey || e.altKey) return;
      e.preventDefault();
      done(this);
      render();
    });
    this.bar.addEventListener("click", e => {
      const at = (1 - (e.clientY - this.bar.getBoundingClientRect().top - margin.top) / this.h) * heightOf();
      const r = this.plan.regions.find(r => at >= r.at && at < r.at + r.bytes);
      if (r) this.fitRegion(r); else this.fitArena();
      render();
    });
  }
}

// legend explains the lines and the strip below a map.
function legend() {
  const strip = (colour, text) => el("span", null, el("span", { className: "strip", style: { background: colour } }), text);
  const line = (cls, text) => el("span", null, el("span", { className: "line " + cls }), text);
  return el("p", { className: "legend faint" }, line("live", "live bytes"), line("peak", "peak"), strip(passColours.f, "forward"),
    strip(passColours.r, "recomputed"), strip(passColours.b, "backward and update"));
}

// heightOf returns the bytes that all maps have room for, so that plans next to each other have one scale.
function heightOf() { return Math.max(...data.plans.map(p => p.total), 256); }

// context returns the context of a canvas, cleared and with pixels of the page.
function context(canvas) {
  const ratio = window.devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
  if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
    canvas.width = Math.round(w * ratio);
    canvas.height = Math.round(h * ratio);
  }
  const c = canvas.getContext("2d");
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, w, h);
  return c;
}

const keys = {
  "+": v => v.zoom(0.8, 0.8), "=": v => v.zoom(0.8, 0.8), "-": v => v.zoom(1.25, 1.25), "0": v => v.fitScratch(), "a": v => v.fitArena(),
  "ArrowLeft": v => v.move(-0.1, 0), "ArrowRight": v => v.move(0.1, 0), "ArrowUp": v => v.move(0, 0.1), "ArrowDown": v => v.move(0, -0.1),
  "n": v => v.next(1), "p": v => v.next(-1), "Enter": v => state.selected && v.fitItems([state.selected]),
};

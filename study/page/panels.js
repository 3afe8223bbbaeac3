// The panels: a row each, with what it needs and how it is made. make returns what is to be done when the point moves.
const panels = [
  { title: "Warnings", wide: true, when: () => runWarnings().length, make: warningsPanel },
  { title: "Criteria", when: () => isSweep() && axes().length === 1, make: criteriaPanel },
  { title: "Map of the criterion", when: () => axes().length === 2, make: mapPanel },
  { title: "Degrees of freedom", when: () => isSweep() && axes().length === 1, make: freedomPanel },
  { title: "Samples", when: isMany, make: histogramPanel },
  { title: "Running mean", when: isMany, make: runningPanel },
  { title: "Summary", when: () => isMany() && model.summary, make: summaryPanel },
  { title: "Picture", wide: true, when: () => kind() === "image" || kind() === "matrix", make: picturePanel },
  { title: "Fit", when: () => kind() === "sequence" || kind() === "rows", make: fitPanel },
  { title: "Correlation of the residual", when: () => kind() === "sequence" && current().look.correlation,
    make: lagsPanel },
  { title: "Coefficients", when: () => coefficients(current()).length || pathNames().length, make: coefficientsPanel },
  { title: "This point", when: () => current() && !isMany(), make: numbersPanel },
  { title: "The choice", when: () => isSweep() && model.summary && model.summary.minimizer, make: choicePanel },
  { title: "To make it again", wide: true, when: () => doc.command || doc.python, make: againPanel },
];
let built = [];

// build makes the panels anew.
function build() {
  for (const p of built) if (p.end) p.end();
  built = [];
  const sections = [];
  for (const row of panels) {
    if (!row.when()) continue;
    const section = make("section", { class: row.wide && "wide", "aria-label": row.title }, make("h2", {}, row.title));
    sections.push([row, section]);
  }
  $("panels").replaceChildren(...sections.map((s) => s[1]));
  for (const [row, section] of sections) built.push(row.make(section) || {});
}
let resizing = 0;
const rebuild = () => { build(); move(); };
addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(rebuild, 120); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", rebuild);
addEventListener("beforeprint", () => { document.documentElement.dataset.print = "yes"; rebuild(); });
addEventListener("afterprint", () => { delete document.documentElement.dataset.print; rebuild(); });

const kind = () => { const f = current() && (frame("signal", current()) || frame("fit", current())); return f && f.of.kind; };
const note = (...text) => make("p", { class: "note" }, ...text);

// chart draws curves by uPlot. under and over draw below and above them.
function chart(section, o) {
  const host = make("div", { role: "img", "aria-label": o.says });
  section.append(host);
  const axis = { stroke: css("--soft"), grid: { stroke: css("--grid"), width: 1 }, ticks: { stroke: css("--grid") },
    font: "12px system-ui, sans-serif" };
  const values = (u, splits) => splits.map((v) => (v === null ? "" : digits(v, 4)));
  const u = new uPlot({
    width: Math.max(200, host.clientWidth || section.clientWidth - 28), height: o.height || 260,
    scales: { x: { time: false, distr: o.log ? 3 : 1, range: o.across }, y: { range: o.range } }, legend: { show: false },
    series: [{}, ...o.series], bands: o.bands,
    axes: [{ ...axis, values, label: o.x, labelSize: 18, labelFont: "12px system-ui, sans-serif" },
      { ...axis, values, size: 66 }],
    cursor: { drag: { x: false, y: false }, focus: { prox: o.focus ? 24 : -1 }, points: { show: !o.focus } },
    focus: { alpha: 0.2 },
    hooks: { drawClear: [(u) => clipped(u, o.under)], draw: [(u) => clipped(u, o.over)],
      setSeries: [(u, i) => o.focus && o.focus(i)], setCursor: [(u) => o.hover && o.hover(u.cursor.idx)] },
  }, o.data, host);
  if (o.pick) u.over.addEventListener("click", () => u.cursor.idx !== null && o.pick(u.cursor.idx));
  return u;
}
function clipped(u, f) {
  if (!f) return;
  const c = u.ctx, b = u.bbox;
  c.save();
  c.beginPath();
  c.rect(b.left, b.top, b.width, b.height);
  c.clip();
  f(u, c, (v) => u.valToPos(v, "x", true), (v) => u.valToPos(v, "y", true), b);
  c.restore();
}
const line = (c, x1, y1, x2, y2) => { c.beginPath(); c.moveTo(x1, y1); c.lineTo(x2, y2); c.stroke(); };
function marked(c, x, b, text, colour, row) {
  c.strokeStyle = c.fillStyle = colour;
  c.lineWidth = devicePixelRatio;
  c.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
  line(c, x, b.top, x, b.top + b.height);
  c.setLineDash([]);
  c.font = 12 * devicePixelRatio + "px system-ui, sans-serif";
  c.textAlign = x > b.left + b.width / 2 ? "right" : "left";
  c.fillText(text, x + (c.textAlign === "right" ? -4 : 4) * devicePixelRatio, b.top + (14 + 15 * row) * devicePixelRatio);
}
const here = (c, x, b) => { c.strokeStyle = css("--main"); c.lineWidth = 2 * devicePixelRatio;
  line(c, x, b.top, x, b.top + b.height); };
const swatch = (colour, text) => [make("span", { class: "swatch", style: undefined, "data-colour": colour }), text];
function key2(...pairs) {
  const p = note(...pairs.flat());
  for (const s of p.querySelectorAll("[data-colour]")) s.style.background = css(s.dataset.colour);
  return p;
}
const atAll = (f) => model.order.map((k) => f(model.points.get(k)));
const weightsAll = () => atAll((p) => p[axes()[0]]);

function criteriaPanel(section) {
  const c = model.criterion, s = model.summary || {}, own = model.header.criterion === c;
  const all = Object.keys(doc.criteria).filter((k) => atAll((p) => value(p, k)).some((v) => v !== null));
  const pick = make("select", { "aria-label": "criterion",
    onchange: () => { model.criterion = pick.value; rebuild(); } }, ...all.map((k) => make("option", { value: k,
    ...(k === c && { selected: "" }) }, label(k))));
  section.firstChild.append(" ", pick);
  const x = weightsAll(), v = atAll((p) => value(p, c)), e = atAll((p) => value(p, c + "_stderr"));
  const loss = (doc.criteria[c] || {}).sigma2 ? atAll((p) => value(p, "loss")) : x.map(() => null);
  const bar = atAll((p) => (own && s.difference_stderr ? s.difference_stderr[p.index] : null));
  const alike = new Set(own ? s.alike : []);
  const audit = (s.audit || []).filter((a) => a.criterion === c && !a.by);
  const seen = [...v.map((y, i) => y !== null && y - (bar[i] || 0)), ...v.map((y, i) => y !== null && y + (bar[i] || 0)),
    ...loss, ...audit.flatMap((a) => [a.error - a.error_stderr, a.error + a.error_stderr])].filter(finite);
  const low = Math.min(...seen), high = Math.max(...seen), pad = 0.06 * (high - low || Math.abs(high) || 1);
  const edge = (i, j) => (x[j] === undefined ? x[i] * Math.sqrt(x[i] / (x[2 * i - j] || x[i])) : Math.sqrt(x[i] * x[j]));
  const hover = note();
  const u = chart(section, { says: label(c) + " over the weight", log: true, x: symbols[axes()[0]], data: [x, v,
    v.map((y, i) => (e[i] === null || y === null ? null : y - e[i])),
    v.map((y, i) => (e[i] === null || y === null ? null : y + e[i])), loss],
    series: [{ stroke: css("--main"), width: 2, points: { size: 5, fill: css("--main") }, spanGaps: true },
      { stroke: "transparent", points: { show: false } }, { stroke: "transparent", points: { show: false } },
      { stroke: css("--second"), width: 1.5, points: { show: false }, spanGaps: true }],
    bands: [{ series: [3, 2], fill: css("--band") }], range: () => [low - pad, high + pad], pick: go,
    hover: (i) => { const p = finite(i) && model.points.get(model.order[i]); hover.textContent = p ? weightsText(p) + ": " +
      label(c) + " " + digits(value(p, c)) + (finite(bar[i]) ? ", to the minimum ± " + digits(bar[i], 2) : "") : "\u00a0"; },
    under: (u, g, px, py, b) => {
      g.fillStyle = css("--alike");
      model.order.forEach((k, i) => { if (alike.has(k)) { const from = px(edge(i, i - 1));
        g.fillRect(from, b.top, Math.max(2, px(edge(i, i + 1)) - from), b.height); } });
    },
    over: (u, g, px, py, b) => {
      g.strokeStyle = css("--main");
      g.lineWidth = devicePixelRatio;
      v.forEach((y, i) => { if (y !== null && finite(bar[i])) line(g, px(x[i]), py(y - bar[i]), px(x[i]), py(y + bar[i])); });
      g.fillStyle = css("--bad");
      atAll((p) => p).forEach((p, i) => { if (!trusted(p) && v[i] !== null) g.fillRect(px(x[i]) - 5, py(v[i]) - 5, 10, 10); });
      if (own && best()) marked(g, px(best()[axes()[0]]), b, model.summary ? "minimum" : "least so far", css("--mark"), 0);
      if (own && chosen() && chosen() !== best()) marked(g, px(chosen()[axes()[0]]), b, s.rule, css("--mark"), 1);
      for (const a of audit) { const at = px(chosen()[axes()[0]]);
        g.strokeStyle = g.fillStyle = css("--bad");
        g.lineWidth = 2 * devicePixelRatio;
        line(g, at, py(a.error - a.error_stderr), at, py(a.error + a.error_stderr));
        g.beginPath(); g.arc(at, py(a.error), 4 * devicePixelRatio, 0, 7); g.fill(); }
      here(g, px(current()[axes()[0]]), b);
    } });
  section.append(hover, key2(swatch("--main", label(c)), swatch("--band", "± its own standard error"),
    bar.some(finite) && ["", " · bars: error of the difference to the minimum"], alike.size ? swatch("--alike",
      "cannot be told from the minimum") : [], loss.some(finite) ? swatch("--second", "true loss") : [],
    audit.length ? swatch("--bad", "audit: fits without some observations") : []),
    note((doc.criteria[c] || {}).help || ""));
  return { move: () => u.redraw(false), end: () => u.destroy() };
}

function freedomPanel(section) {
  const u = chart(section, { says: "degrees of freedom over the weight", log: true, x: symbols[axes()[0]],
    data: [weightsAll(), atAll((p) => p.divergence)], pick: go,
    series: [{ stroke: css("--main"), width: 2, points: { size: 5, fill: css("--main") } }],
    over: (u, g, px, py, b) => here(g, px(current()[axes()[0]]), b) });
  section.append(note("The divergence of the fit: how much of the noise it follows, 0 for none and " + about().d +
    " for all."));
  return { move: () => u.redraw(false), end: () => u.destroy() };
}

// A map of the criterion over two weights: cells are points of the grid.
function mapPanel(section) {
  const [a, b] = axes(), c = model.criterion, s = model.summary || {};
  const canvas = make("canvas", { role: "img", "aria-label": "map of " + label(c) + " over two weights" });
  section.append(canvas, note("Across " + symbols[a] + ", upwards " + symbols[b] + ": dark is less. ○ minimum, dots cannot " +
    "be told from it, □ this point."));
  const grid = atAll((p) => p).filter((p) => p.stage !== "refine");
  const xs = [...new Set(grid.map((p) => p[a]))].sort((p, q) => p - q), ys = [...new Set(grid.map((p) => p[b]))]
    .sort((p, q) => p - q);
  const v = grid.map((p) => value(p, c)).filter((x) => x !== null).sort((p, q) => p - q);
  const low = v[0], high = v[Math.floor(0.9 * (v.length - 1))];
  const width = section.clientWidth - 28, height = Math.round(width * 0.6), scale = devicePixelRatio;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = width + "px";
  const place = (all, w) => { const k = all.findIndex((x) => x >= w * (1 - 1e-12)); if (k < 0) return all.length - 0.5;
    return k === 0 || all[k] <= w * (1 + 1e-12) ? k + 0.5 : k - 0.5 + Math.log(w / all[k - 1]) / Math.log(all[k] / all[k - 1]); };
  const to = (p) => [place(xs, p[a]) / xs.length * canvas.width, (1 - place(ys, p[b]) / ys.length) * canvas.height];
  const draw = () => {
    const g = canvas.getContext("2d"), w = canvas.width / xs.length, h = canvas.height / ys.length;
    g.clearRect(0, 0, canvas.width, canvas.height);
    for (const p of grid) { const y = value(p, c), [cx, cy] = to(p);
      g.fillStyle = y === null ? css("--grid") : "rgb(" + sequential((y - low) / (high - low || 1)) + ")";
      g.fillRect(cx - w / 2, cy - h / 2, w + 1, h + 1);
      if ((s.alike || []).includes(p.index)) { g.fillStyle = "#fff"; g.fillRect(cx - 2, cy - 2, 4, 4); } }
    const ring = (p, f) => { if (p) { g.strokeStyle = "#fff"; g.lineWidth = 2 * scale; g.beginPath(); f(...to(p)); g.stroke(); } };
    ring(best(), (x, y) => g.arc(x, y, 6 * scale, 0, 7));
    ring(current(), (x, y) => g.rect(x - 9 * scale, y - 9 * scale, 18 * scale, 18 * scale));
  };
  canvas.addEventListener("click", (e) => {
    const near = (p) => { const [x, y] = to(p); return (x / scale - e.offsetX) ** 2 + (y / scale - e.offsetY) ** 2; };
    goTo(atAll((p) => p).reduce((p, q) => (near(q) < near(p) ? q : p)));
  });
  return { move: draw };
}

// Colours: from 0 to 1 dark violet to yellow, and from -1 to 1 blue, white, red.
const stops = [[45, 13, 84], [57, 69, 130], [50, 124, 148], [71, 172, 132], [152, 213, 98], [251, 246, 96]];
function sequential(t) {
  const x = Math.min(0.9999, Math.max(0, t)) * (stops.length - 1), k = Math.floor(x);
  return stops[k].map((v, i) => Math.round(v + (x - k) * (stops[k + 1][i] - v)));
}
function diverging(t) {
  const x = Math.min(1, Math.abs(t)), end = t < 0 ? [0, 68, 169] : [151, 0, 8];
  return end.map((v) => Math.round(250 + x * (v - 250)));
}
const gray = (t) => { const v = Math.round(255 * Math.min(1, Math.max(0, t))); return [v, v, v]; };
// paint draws values as pixels; missing ones stay empty.
function paint(canvas, x, shape, colour, low, high) {
  const [rows, cols, channels = 1] = shape, image = new ImageData(cols, rows);
  for (let i = 0; i < rows * cols; i++) {
    if (Number.isNaN(x[i * channels])) continue;
    const t = (k) => (x[i * channels + k] - low) / (high - low || 1);
    const rgb = channels === 3 ? [0, 1, 2].map((k) => gray(t(k))[0]) : colour(t(0));
    image.data.set([...rgb, 255], 4 * i);
  }
  canvas.width = cols;
  canvas.height = rows;
  canvas.getContext("2d").putImageData(image, 0, 0);
}
const quantile = (x, q) => { const s = Float32Array.from(x).filter((v) => !Number.isNaN(v)).sort();
  return s[Math.max(0, Math.min(s.length - 1, Math.floor(q * s.length)))]; };
const minus = (x, y) => x.map((v, i) => v - y[i]);
function pictures(caption) {
  const canvas = make("canvas", { class: "picture", role: "img", "aria-label": caption });
  const text = make("figcaption", {}, caption);
  return { canvas, text, figure: make("figure", {}, canvas, text) };
}
function picturePanel(section) {
  const row = make("div", { class: "pictures" });
  section.append(row);
  const f0 = frame("fit", chosen() || current()) || frame("fit", current()), data = frame("data"), y = numbers(data);
  const matrix = kind() === "matrix", colour = matrix ? sequential : gray;
  const range = (x) => (matrix ? [quantile(x, 0.01), quantile(x, 0.99)] : [quantile(x, 0.002), quantile(x, 0.998)]);
  const comparable = f0 && data && String(f0.of.shape) === String(data.of.shape);
  const size = (f) => " · " + f.of.shape.slice(0, 2).join(" × ") + (f.of.means > 1 ? ", means of " + f.of.means + " × " +
    f.of.means + " pixels" : "") + (f.of.every > 1 ? ", every " + f.of.every + "th row and column" : "");
  const painters = [], add = (caption, f) => { const p = pictures(caption); row.append(p.figure); painters.push((at) => f(p, at)); };
  const s0 = frame("signal", chosen() || current());
  if (data) add("y" + size(data), (p) => p.done || (p.done = paint(p.canvas, y, data.of.shape, colour,
    ...range(comparable && !s0 ? numbers(f0) : y)) || true));
  if (f0) { const scale = range(numbers(f0)); add("", (p, at) => { const f = frame("fit", at);
    p.text.textContent = (s0 ? "fit to y" : matrix ? "completed matrix" : "estimate") + " at " + weightsText(at) +
      (f ? size(f) : ": no picture was kept"); if (f) paint(p.canvas, numbers(f), f.of.shape, colour, ...scale); }); }
  if (s0) { const scale = range(numbers(s0)); add("", (p, at) => { const f = frame("signal", at);
    p.text.textContent = "estimate of the image at " + weightsText(at) + (f ? size(f) : ": no picture was kept");
    if (f) paint(p.canvas, numbers(f), f.of.shape, gray, ...scale); }); }
  if (comparable) { const most = quantile(minus(y, numbers(f0)).map(Math.abs), 0.995) || 1; add("", (p, at) => {
    const f = frame("fit", at);
    p.text.textContent = "residual y − " + (s0 ? "fit" : "estimate") + ", ± " + digits(most, 2) + (matrix ?
      ", where observed" : "") + (f ? "" : ": no picture was kept");
    if (f) paint(p.canvas, luminance(minus(y, numbers(f)), f.of.shape), f.of.shape.slice(0, 2), diverging, 0, most); }); }
  const c0 = atAll((p) => p.look && p.look.correlation).filter((c) => c && c.shape.length === 2);
  if (c0.length) { const most = Math.max(...c0.map((c) => off(c)[0])); add("", (p, at) => {
    const c = at.look && at.look.correlation;
    if (!c) return;
    const [big, s, t] = off(c);
    p.text.textContent = "correlation of the residual at lags up to " + (c.shape[0] - 1) / 2 + ", ± " + digits(most, 2) +
      "; largest " + digits(big, 2) + " at (" + s + ", " + t + "), beside ± " + digits(2 / Math.sqrt(c.of), 1) +
      " of white noise";
    paint(p.canvas, c.values, c.shape, diverging, 0, most); }); }
  const show = () => painters.forEach((f) => f(shown()));
  return { move: show, blink: show };
}
function luminance(x, shape) {
  const n = shape[2] || 1;
  return n === 1 ? x : Float32Array.from({ length: x.length / n }, (_, i) => (x[n * i] + x[n * i + 1] + x[n * i + 2]) / n);
}
// off is the largest correlation away from the middle, and its lag.
function off(c) {
  const side = c.shape[0], middle = (side - 1) / 2;
  return c.values.reduce((m, v, i) => (i !== middle * side + middle && Math.abs(v) > m[0] ?
    [Math.abs(v), Math.floor(i / side) - middle, i % side - middle] : m), [0, 0, 0]);
}

// A sequence and its fit, or of a table's rows the residual over the fit.
function fitPanel(section) {
  const rows = kind() === "rows", y = numbers(frame("data")), of = frame("fit", current()).of;
  const dots = { stroke: css("--second"), paths: () => null, points: { show: true, size: 4, fill: css("--second") } };
  const curve = { stroke: css("--main"), width: 2, points: { show: false } };
  const data = (at) => {
    const f = numbers(frame("fit", at)) || numbers(frame("fit", current()));
    if (!rows) return [[...f].map((_, i) => i * (of.every || 1)), y ? [...y] : [...f].map(() => null), [...f]];
    const order = [...f.keys()].sort((i, j) => f[i] - f[j]);
    return [order.map((i) => f[i]), order.map((i) => (y ? y[i] - f[i] : null))];
  };
  const u = chart(section, { says: rows ? "residuals over fitted values" : "data and fit", data: data(current()),
    x: rows ? "fitted value" : "place", series: rows ? [dots] : [dots, curve],
    over: (u, g, px, py, b) => { if (rows) { g.strokeStyle = css("--soft"); line(g, b.left, py(0), b.left + b.width, py(0)); } } });
  const text = note();
  section.append(text);
  const show = () => { u.setData(data(shown()));
    text.textContent = (rows ? "Residuals y − mu_hat over mu_hat" : "y and mu_hat") + " at " + weightsText(shown()) +
      (of.every > 1 ? ", one in " + of.every : "") + "."; };
  return { move: show, blink: show, end: () => u.destroy() };
}
function lagsPanel(section) {
  const of = (p) => p.look && p.look.correlation ? p.look.correlation.values.slice(1) : [];
  const lags = of(current()).map((_, i) => i + 1), bound = 2 / Math.sqrt(current().look.correlation.of);
  const u = chart(section, { says: "correlation of the residual by its lag", data: [lags, of(current())], x: "lag",
    series: [{ stroke: css("--main"), fill: css("--main"), paths: uPlot.paths.bars({ size: [0.5] }), points: { show: false } }],
    range: (u, low, high) => [Math.min(low, -0.2), Math.max(high, 0.2)],
    over: (u, g, px, py, b) => { g.strokeStyle = css("--soft"); for (const v of [-bound, bound]) line(g, b.left, py(v),
      b.left + b.width, py(v)); } });
  section.append(note("White noise stays between the lines, ± " + digits(bound, 1) + ", at most lags."));
  return { move: () => u.setData([lags, of(shown())]), end: () => u.destroy() };
}

const coefficients = (p) => (p && p.look && p.look.coefficients) || (p && p.coefficients) || [];
function pathNames() {
  const most = new Map();
  if (isSweep()) for (const p of model.points.values()) for (const c of coefficients(p)) most.set(c.name, Math.max(most.get(c.name) || 0,
    Math.abs(c.estimate)));
  return [...most.keys()].sort((a, b) => most.get(b) - most.get(a));
}
const hue = (i) => "hsl(" + Math.round(i * 137.5) % 360 + " 65% " + (matchMedia("(prefers-color-scheme: dark)").matches ? 65 : 40) + "%)";
function coefficientsPanel(section) {
  const all = pathNames(), names = all.slice(0, 60);
  const hovered = note("\u00a0"), list = make("div", { class: "scroll coefficients", tabindex: "0" });
  let u = null;
  const tell = (i) => { hovered.replaceChildren(...(i ? [name(names[i - 1]), ": ", digits(estimate(current(), names[i - 1]))] :
    ["Point at a curve, or move to a name, for its path."])); };
  if (isSweep() && axes().length === 1 && names.length) {
    u = chart(section, { says: "coefficients over the weight", log: true, x: symbols[axes()[0]], focus: tell, pick: go,
      data: [weightsAll(), ...names.map((n) => atAll((p) => estimate(p, n)))],
      series: names.map((n, i) => ({ stroke: hue(i), width: 1.5, points: { show: false } })),
      over: (u, g, px, py, b) => here(g, px(current()[axes()[0]]), b) });
    tell(0);
    section.append(hovered);
  }
  section.append(list);
  if (all.length > names.length) section.append(note("The " + names.length + " largest of " + all.length + " paths."));
  const show = () => {
    const at = coefficients(shown()).slice().sort((a, b) => Math.abs(b.estimate) - Math.abs(a.estimate));
    const focus = (n, on) => u && names.includes(n) && u.setSeries(names.indexOf(n) + 1, { focus: on }, true);
    list.replaceChildren(make("table", {}, make("tbody", {}, ...at.map((c) => make("tr", {}, make("td", {},
      make("button", { type: "button", onfocus: () => focus(c.name, true), onmouseenter: () => focus(c.name, true),
        onblur: () => focus(c.name, false), onmouseleave: () => focus(c.name, false) }, name(c.name))),
    make("td", { class: "number" }, digits(c.estimate)))))));
    const out = (shown().look || {}).coefficients_left_out;
    list.append(note(at.length + " are not 0" + (out ? ", and " + out + " smaller ones that are not here" : "") + "."));
    if (u) u.redraw(false);
  };
  return { move: show, blink: show, end: () => u && u.destroy() };
}
function estimate(p, n) {
  const c = coefficients(p).find((c) => c.name === n);
  return c ? c.estimate : 0;
}

const spread = (v, e, n = 6) => digits(v, n) + (finite(e) ? " ± " + digits(e, 2) : "");
function numbersOf(p) {
  const rows = [["weights", weightsText(p)]];
  for (const [c, of] of Object.entries(doc.criteria)) {
    if (value(p, c) !== null) rows.push([of.label, spread(value(p, c), value(p, c + "_stderr"))]);
  }
  const s = model.summary || {};
  if (s.difference && finite(s.difference[p.index])) {
    rows.push([label(model.header.criterion) + " − minimum", spread(s.difference[p.index], s.difference_stderr[p.index])]);
  }
  rows.push(["degrees of freedom", spread(p.divergence, p.divergence_stderr)]);
  for (const [k, text] of [["residual", "residual, squared"], ["sigma2_df", "σ² by the residual"], ["loss", "true loss"],
    ["intercept", "intercept"]]) if (finite(p[k])) rows.push([text, digits(p[k], 6)]);
  rows.push(["solver", p.solver.name + (p.solver.method ? " (" + p.solver.method + ")" : "") + ", " + p.solver.iterations +
    " iterations" + (trusted(p) ? "" : ", NOT CONVERGED")]);
  return rows;
}
function numbersPanel(section) {
  const body = make("div", { class: "scroll" });
  section.append(body);
  return { move: () => {
    const a = numbersOf(current()), b = other() && other() !== current() ? new Map(numbersOf(other())) : null;
    body.replaceChildren(make("table", {}, make("tbody", {}, b ? make("tr", {}, make("th", {}), make("th", { class: "number" },
      "this"), make("th", { class: "number" }, "held")) : null, ...a.map(([k, v]) => make("tr", {}, make("td", {}, k),
      make("td", { class: "number" }, v), b ? make("td", { class: "number" }, b.get(k) || "–") : null)))));
    const own = (current().warnings || []).filter((w) => !runWarnings().some((r) => r.text === w.text));
    if (own.length) body.append(warningList(own));
  } };
}

const runWarnings = () => (model.summary ? model.summary.warnings : isSweep() ? null : about().warnings) || [];
// warningList lists warnings with what can be done.
function warningList(all) {
  return make("ul", { class: "warnings" }, ...all.map((w) => { const of = doc.warnings[w.code] || {};
    return make("li", {}, make("span", { class: of.severity || "note" }, (of.severity || "note") + " "), name(w.text),
      of.do ? make("span", { class: "note" }, " To do: " + of.do.replaceAll("`", "") + ".") : null); }));
}
function warningsPanel(section) { section.append(warningList(runWarnings())); }

function choicePanel(section) {
  const s = model.summary, rule = label(s.criterion), rows = [];
  const at = (m) => weightsText(m) + ", " + rule + " " + spread(value(m, s.criterion), value(m, s.criterion + "_stderr"));
  rows.push(["minimum", at(s.minimizer)]);
  if (s.rule && s.chosen && s.chosen.index !== s.minimizer.index) rows.push(["chosen by " + s.rule, at(s.chosen)]);
  if (s.alike) rows.push(["cannot be told from it", s.alike.length + " of " + s.points + " points"]);
  if (finite(s.optimism)) rows.push(["the minimum is too small by", spread(s.optimism, s.optimism_stderr) + ", " + rule +
    " was searched. This leaves out: " + s.optimism_leaves_out]);
  for (const a of s.audit || []) rows.push(["audit" + (a.by ? " of " + a.by : ""), "fits without " + a.observations +
    " observations predict them with the error " + spread(a.error, a.error_stderr, 4) + ", " + label(a.criterion) + " says " +
    digits(a.criterion_says, 4) + ": off by " + digits(a.bars, 2) + " bars"]);
  if (s.least_loss) rows.push(["least true loss", weightsText(s.least_loss) + ", " + digits(s.least_loss.loss)]);
  section.append(make("table", {}, make("tbody", {}, ...rows.map(([k, v]) => make("tr", {}, make("th", {}, k), make("td", {}, v))))));
}

// Monte Carlo runs.
const main = () => ["sure", "gcv", "alo"].find((k) => (model.series[k] || []).length) || "sure";
const given = (x) => (x || []).filter(finite);
function histogramPanel(section) {
  const x = given(model.series[main()]), low = Math.min(...x), high = Math.max(...x), n = Math.max(5, Math.min(60,
    Math.round(Math.sqrt(x.length) * 1.5))), width = (high - low) / n || 1, count = new Array(n).fill(0);
  for (const v of x) count[Math.min(n - 1, Math.floor((v - low) / width))]++;
  const u = chart(section, { says: "histogram of " + label(main()), x: label(main()), data: [count.map((_, i) => low + (i + 0.5) * width),
    count], across: () => [low, high > low ? high : low + 1],
    range: (u, a, b) => [0, b * 1.05 || 1], series: [{ stroke: css("--main"), fill: css("--band"), points: { show: false },
    paths: uPlot.paths.bars({ size: [1] }) }] });
  section.append(note(x.length + " samples."));
  return { end: () => u.destroy() };
}
function runningPanel(section) {
  const which = given(model.series.error).length ? "error" : main(), x = given(model.series[which]);
  const mean = [], low = [], high = [];
  let sum = 0, squares = 0;
  x.forEach((v, i) => { const before = i ? sum / i : 0; sum += v; squares += (v - before) * (v - sum / (i + 1));
    const e = i ? Math.sqrt(squares / i / (i + 1)) : null;
    mean.push(sum / (i + 1)); low.push(e === null ? null : mean[i] - e); high.push(e === null ? null : mean[i] + e); });
  const u = chart(section, { says: "running mean", x: "samples", data: [x.map((_, i) => i + 1), mean, low, high],
    series: [{ stroke: css("--main"), width: 2, points: { show: false } }, { stroke: "transparent" }, { stroke: "transparent" }],
    bands: [{ series: [3, 2], fill: css("--band") }],
    over: (u, g, px, py, b) => { if (which === "error") { g.strokeStyle = css("--soft"); line(g, b.left, py(0), b.left + b.width, py(0)); } } });
  section.append(note(which === "error" ? "SURE − loss, ± its standard error: 0 in expectation." : label(which) +
    ", ± its standard error."));
  return { end: () => u.destroy() };
}
function summaryPanel(section) {
  const rows = Object.entries(model.summary).filter(([k, v]) => finite(v));
  section.append(make("div", { class: "scroll" }, make("table", {}, make("tbody", {}, ...rows.map(([k, v]) => make("tr", {},
    make("td", {}, k.replaceAll("_", " ")), make("td", { class: "number" }, digits(v, 6))))))));
}

function againPanel(section) {
  for (const [what, text] of [["command", doc.command], ["Python", doc.python]]) {
    if (!text) continue;
    const pre = make("pre", {}, name(text)), done = make("span", { role: "status" });
    const copy = async () => {
      getSelection().selectAllChildren(pre);
      try { await navigator.clipboard.writeText(text); } catch { document.execCommand("copy"); }
      done.textContent = " copied";
    };
    section.append(make("p", {}, what + " ", make("button", { type: "button", class: "copy", onclick: copy }, "copy"), done), pre);
  }
}

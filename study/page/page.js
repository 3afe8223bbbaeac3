"use strict";
// The model: lines of a run's file, taken one by one, and the pictures of its points.
const doc = JSON.parse(document.getElementById("data").textContent);
const model = {
  header: null, summary: null, points: new Map(), series: {},
  frames: { fit: new Map(), signal: new Map(), data: new Map() },
  order: [], at: 0, held: null, shown: null, criterion: null, moved: false,
  zoom: null, // the weights that curves show, null for all
};

const $ = (id) => document.getElementById(id);
// make makes an element. Text is only ever text.
function make(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {})) {
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (v !== undefined && v !== false) e.setAttribute(k, v);
  }
  e.append(...children.filter((c) => c !== undefined && c !== null));
  return e;
}
// name isolates a text of the data, which may run from right to left.
const name = (text) => make("bdi", {}, String(text));
const note = (...text) => make("p", { class: "note" }, ...text);
const css = (v) => getComputedStyle(document.documentElement).getPropertyValue(v).trim();
const finite = (v) => typeof v === "number" && isFinite(v);
function digits(v, n = 5) {
  if (v === "inf" || v === Infinity) return "∞";
  if (!finite(v)) return "–";
  return String(Number(v.toPrecision(n))).replace("-", "−");
}
const spread = (v, e, n = 6) => digits(v, n) + (finite(e) ? " ± " + digits(e, 2) : "");

const symbols = { lambda: "λ", lambda2: "λ2", gamma: "γ" };
const isSweep = () => !!(model.header && model.header.grid);
const isMany = () => Object.keys(model.series).length > 0;
const first = () => model.points.values().next().value;
const current = () => model.points.get(model.order[model.at]) || first();
const other = () => (model.held === null ? null : model.points.get(model.held));
// shown is the point whose picture is to be seen: while blinking the held one in turn.
const shown = () => model.points.get(model.shown) || current();
const axes = () =>
  isSweep()
    ? model.header.grid.map((g) => g.weight)
    : Object.keys(symbols).filter((w) => current() && finite(current()[w])).slice(0, 1);
const atAll = (f) => model.order.map((k) => f(model.points.get(k)));
function value(p, key) {
  const v = p[key] !== undefined ? p[key] : (p.criteria || {})[key];
  return finite(v) ? v : null;
}
const valueText = (p, c, n) => spread(value(p, c), value(p, c + "_stderr"), n);
const label = (c) => (doc.criteria[c] || {}).label || c;
const trusted = (p) => p.solver && !p.untrusted;
const weightsText = (p) =>
  Object.keys(symbols).filter((w) => p[w] !== undefined).map((w) => symbols[w] + " = " + digits(p[w], 4)).join(", ");

// best is the minimizer, that of the summary or the least so far, and chosen the point that the rule chooses.
function best() {
  if (model.summary && model.summary.minimizer) return model.points.get(model.summary.minimizer.index);
  let least = null;
  for (const p of model.points.values()) {
    const v = value(p, model.criterion);
    if (v !== null && trusted(p) && !p.overfits && (!least || v < value(least, model.criterion))) least = p;
  }
  return least;
}
const chosen = () =>
  (model.summary && model.summary.chosen ? model.points.get(model.summary.chosen.index) : null) || best();
const key = (p) => (p.index === undefined ? 0 : p.index);

// take takes a record.
function take(r) {
  if (r.series) model.series = r.series;
  else if (r.summary) model.summary = r;
  else if (r.shard && r.whole) model.header = model.header || r.whole;
  else if (r.sweep || r.montecarlo) model.header = r;
  else if (r.sample !== undefined) {
    if (!model.points.size) model.points.set(0, r);
    if (r.repeat === undefined) takeSample(r);
  } else model.points.set(key(r), r);
}
function takeSample(r) {
  const put = (k, v) => ((model.series[k] = model.series[k] || [])[r.sample] = v);
  for (const k of ["sure", "sure_stderr", "loss", "gcv", "alo"]) if (value(r, k) !== null) put(k, r[k]);
  if (value(r, "sure") !== null && value(r, "loss") !== null) put("error", r.sure - r.loss);
}
// unpack adds the frames of packs: codes, each minus the one before it.
async function unpack(packs) {
  for (const [what, p] of Object.entries(packs || {}).flatMap(([what, list]) => list.map((p) => [what, p]))) {
    const raw = Uint8Array.from(atob(p.pixels), (c) => c.charCodeAt(0));
    const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    const n = p.shape.reduce((a, b) => a * b, 1), wide = p.codes > 255, mask = wide ? 65535 : 255;
    let before = new Uint16Array(n);
    p.at.forEach((at, k) => {
      const from = k * n * (wide ? 2 : 1);
      before = before.map((v, i) => (v + bytes[from + i] + (wide ? bytes[from + n + i] << 8 : 0)) & mask);
      model.frames[what].set(at, { of: p, codes: before });
    });
  }
}
// numbers are the values of a frame, NaN where they are missing.
function numbers(f) {
  if (!f) return null;
  const step = (f.of.high - f.of.low) / (f.of.codes - 1);
  return Float32Array.from(f.codes, (c) => (c >= f.of.codes ? NaN : f.of.low + c * step));
}
const frame = (what, p) => (what === "data" ? model.frames.data.values().next().value : model.frames[what].get(key(p)));

// settle orders the points and shows all that changed.
function settle() {
  const here = model.order[model.at], names = axes().slice().reverse();
  model.order = [...model.points.keys()].sort((a, b) => {
    const p = model.points.get(a), q = model.points.get(b), w = names.find((w) => p[w] !== q[w]);
    return w ? p[w] - q[w] : a - b;
  });
  model.criterion =
    model.criterion || (model.header && model.header.criterion) ||
    ["sure", "gcv", "alo"].find((c) => first() && value(first(), c) !== null) || "sure";
  const to = (model.moved ? null : chosen()) || model.points.get(here);
  model.at = Math.max(0, to ? model.order.indexOf(key(to)) : 0);
  rebuild();
}

// The header, the slider and the keys.
function heading() {
  const a = first() || {}, h = model.header || {};
  const problem = a.problem || h.problem || (h.settings || {}).problem || "surepipe";
  document.title = problem + " · " + doc.name;
  $("title").replaceChildren(problem + ", ", name(doc.name));
  const parts = [];
  if (a.d) parts.push("d = " + a.d + ", p = " + a.p);
  if (a.sigma2) parts.push("σ² = " + digits(a.sigma2, 4) + (a.sigma2_method ? " (" + a.sigma2_method + ")" : ""));
  else if (a.d) parts.push("σ² unknown");
  if (a.loss_name) parts.push(a.loss_name + " loss");
  if (isSweep()) parts.push(model.points.size + " weights, least " + label(h.criterion));
  if (model.summary && isMany()) parts.push(model.summary.samples + " samples");
  $("about").textContent = parts.join("  ·  ");
  const keys = model.order.length > 1 ? " · keys: ← → weight, m minimum, c chosen, h hold, b blink" : "";
  $("footer").replaceChildren(
    "surepipe " + (a.version || doc.version) + (a.device ? " on " + a.device : ""),
    make("span", { class: "keys" }, keys),
  );
}
function readout() {
  const p = current();
  if (!p) return;
  const parts = [weightsText(p), "df " + spread(p.divergence, p.divergence_stderr || undefined, 5)];
  if (value(p, model.criterion) !== null) parts.push(label(model.criterion) + " " + valueText(p, model.criterion, 5));
  if (p === best()) parts.push(model.summary ? "minimum" : "least so far");
  if (model.summary && p === chosen() && p !== best()) parts.push("chosen by " + model.summary.rule);
  if (!trusted(p)) parts.push("NOT CONVERGED");
  else if (p.overfits) parts.push("OVERFITS");
  $("readout").textContent = parts.join("  ·  ");
}
// move shows the current point everywhere.
function move() {
  $("controls").hidden = !(isSweep() && model.order.length > 1);
  $("slider").max = Math.max(0, model.order.length - 1);
  $("slider").value = model.at;
  $("slider").setAttribute("aria-valuetext", current() ? weightsText(current()) : "");
  $("slider-label").textContent = axes().map((w) => symbols[w]).join(", ");
  $("to-chosen").hidden = !model.summary || chosen() === best();
  $("to-chosen").textContent = model.summary && model.summary.rule ? "chosen by " + model.summary.rule : "chosen";
  heading();
  readout();
  for (const p of built) if (p.move) p.move();
}
function go(at) {
  if (!(at >= 0 && at < model.order.length)) return;
  Object.assign(model, { at, moved: true, shown: null });
  move();
}
const goTo = (p) => p && go(model.order.indexOf(key(p)));
function hold() {
  model.held = model.order[model.at];
  $("blink").disabled = false;
  $("hold").textContent = "held: " + weightsText(other());
  move();
}
// blink shows the held point and the current one in turn: by a clock, or where motion is unwanted by the key.
let timer = 0;
function blink() {
  if (model.held === null) return;
  const swap = () => {
    model.shown = model.shown === model.held ? model.order[model.at] : model.held;
    for (const p of built) if (p.blink) p.blink();
  };
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return swap();
  const on = !timer;
  clearInterval(timer);
  timer = on ? setInterval(swap, 600) : 0;
  $("blink").setAttribute("aria-pressed", String(on));
  if (on) return swap();
  model.shown = null;
  move();
}
const acts = { m: () => goTo(best()), c: () => goTo(chosen()), h: hold, b: blink };
for (const [id, k] of [["to-minimum", "m"], ["to-chosen", "c"], ["hold", "h"], ["blink", "b"]]) {
  $(id).addEventListener("click", acts[k]);
}
$("slider").addEventListener("input", () => go(Number($("slider").value)));
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.tagName === "SELECT") return;
  const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
  if (acts[e.key]) acts[e.key]();
  else if (step && e.target !== $("slider")) go(model.at + step);
});

// start draws the curves, and then the pictures, which take longer to unpack.
function start() {
  for (const r of doc.records || []) take(r);
  if (doc.live) return follow();
  settle();
  requestAnimationFrame(() =>
    setTimeout(async () => {
      await unpack(doc.packs);
      document.body.dataset.ready = "yes";
      settle();
    }),
  );
}
// follow takes the lines of a server, and shows them at most every 150 ms.
function follow() {
  const from = new EventSource("events");
  let waiting = false, work = Promise.resolve();
  const then = (f) => (work = work.then(f));
  const later = () => {
    if (waiting) return;
    waiting = true;
    setTimeout(() => {
      waiting = false;
      then(settle);
    }, 150);
  };
  const say = (text) => ($("live").textContent = text);
  const state = () => {
    const total = isSweep() ? model.header.grid.reduce((n, g) => n * g.points, 1) : 0;
    const so = total ? model.points.size + " of " + total + " points of the grid" : "waiting for lines";
    say(model.summary ? "complete" : "live: " + so);
  };
  from.onmessage = (m) => {
    const e = JSON.parse(m.data);
    then(() => unpack(e.packs));
    then(() => {
      e.records.forEach(take);
      state();
    });
    later();
  };
  from.addEventListener("caught", () =>
    then(() => {
      document.body.dataset.ready = "yes";
      state();
      later();
    }),
  );
  from.addEventListener("again", () =>
    then(() => {
      Object.assign(model, { header: null, summary: null, series: {} });
      model.points.clear();
    }),
  );
  from.onerror = () => say("the program has ended, or cannot be reached");
}
addEventListener("DOMContentLoaded", start);

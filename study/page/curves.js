// Panels of curves, which uPlot draws.

// chart draws curves by uPlot. under and over draw below and above them.
function chart(section, o) {
  const host = make("div", { role: "img", "aria-label": o.says });
  section.append(host);
  const axis = {
    stroke: css("--soft"),
    grid: { stroke: css("--grid"), width: 1 },
    ticks: { stroke: css("--grid") },
    font: "12px system-ui, sans-serif",
  };
  const values = (u, splits) => splits.map((v) => (v === null ? "" : digits(v, 4)));
  const u = new uPlot(
    {
      width: Math.max(200, host.clientWidth || section.clientWidth - 28),
      height: o.height || 260,
      scales: { x: { time: false, distr: o.log ? 3 : 1, range: o.across }, y: { range: o.range } },
      legend: { show: false },
      series: [{}, ...o.series],
      bands: o.bands,
      axes: [
        { ...axis, values, label: o.x, labelSize: 18, labelFont: "12px system-ui, sans-serif" },
        { ...axis, values, size: 66 },
      ],
      cursor: { drag: { x: false, y: false }, focus: { prox: o.focus ? 24 : -1 }, points: { show: !o.focus } },
      focus: { alpha: 0.2 },
      hooks: {
        drawClear: [(u) => clipped(u, o.under)],
        draw: [(u) => clipped(u, o.over)],
        setSeries: [(u, i) => o.focus && o.focus(i)],
        setCursor: [(u) => o.hover && o.hover(u.cursor.idx)],
      },
    },
    o.data,
    host,
  );
  if (o.pick) u.over.addEventListener("click", () => u.cursor.idx !== null && o.pick(u.cursor.idx));
  return u;
}
function clipped(u, f) {
  if (!f) return;
  const c = u.ctx,
    b = u.bbox;
  c.save();
  c.beginPath();
  c.rect(b.left, b.top, b.width, b.height);
  c.clip();
  f(
    u,
    c,
    (v) => u.valToPos(v, "x", true),
    (v) => u.valToPos(v, "y", true),
    b,
  );
  c.restore();
}
const line = (c, x1, y1, x2, y2) => {
  c.beginPath();
  c.moveTo(x1, y1);
  c.lineTo(x2, y2);
  c.stroke();
};
function marked(c, x, b, text, colour, row) {
  c.strokeStyle = c.fillStyle = colour;
  c.lineWidth = devicePixelRatio;
  c.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
  line(c, x, b.top, x, b.top + b.height);
  c.setLineDash([]);
  c.font = 12 * devicePixelRatio + "px system-ui, sans-serif";
  c.textAlign = x > b.left + b.width / 2 ? "right" : "left";
  c.fillText(
    text,
    x + (c.textAlign === "right" ? -4 : 4) * devicePixelRatio,
    b.top + (14 + 15 * row) * devicePixelRatio,
  );
}
const here = (c, x, b) => {
  c.strokeStyle = css("--main");
  c.lineWidth = 2 * devicePixelRatio;
  line(c, x, b.top, x, b.top + b.height);
};
const swatch = (colour, text) => [make("span", { class: "swatch", style: undefined, "data-colour": colour }), text];
function key2(...pairs) {
  const p = note(...pairs.flat());
  for (const s of p.querySelectorAll("[data-colour]")) s.style.background = css(s.dataset.colour);
  return p;
}
const atAll = (f) => model.order.map((k) => f(model.points.get(k)));
const weightsAll = () => atAll((p) => p[axes()[0]]);

function criteriaPanel(section) {
  const c = model.criterion,
    s = model.summary || {},
    own = model.header.criterion === c;
  const all = Object.keys(doc.criteria).filter((k) => atAll((p) => value(p, k)).some((v) => v !== null));
  const pick = make(
    "select",
    {
      "aria-label": "criterion",
      onchange: () => {
        model.criterion = pick.value;
        rebuild();
      },
    },
    ...all.map((k) => make("option", { value: k, ...(k === c && { selected: "" }) }, label(k))),
  );
  section.firstChild.append(" ", pick);
  const x = weightsAll(),
    v = atAll((p) => value(p, c)),
    e = atAll((p) => value(p, c + "_stderr"));
  const loss = (doc.criteria[c] || {}).sigma2 ? atAll((p) => value(p, "loss")) : x.map(() => null);
  const bar = atAll((p) => (own && s.difference_stderr ? s.difference_stderr[p.index] : null));
  const alike = new Set(own ? s.alike : []);
  const audit = (s.audit || []).filter((a) => a.criterion === c && !a.by);
  const seen = [
    ...v.map((y, i) => y !== null && y - (bar[i] || 0)),
    ...v.map((y, i) => y !== null && y + (bar[i] || 0)),
    ...loss,
    ...audit.flatMap((a) => [a.error - a.error_stderr, a.error + a.error_stderr]),
  ].filter(finite);
  const low = Math.min(...seen),
    high = Math.max(...seen),
    pad = 0.06 * (high - low || Math.abs(high) || 1);
  const edge = (i, j) =>
    x[j] === undefined ? x[i] * Math.sqrt(x[i] / (x[2 * i - j] || x[i])) : Math.sqrt(x[i] * x[j]);
  const hover = note();
  const u = chart(section, {
    says: label(c) + " over the weight",
    log: true,
    x: symbols[axes()[0]],
    data: [
      x,
      v,
      v.map((y, i) => (e[i] === null || y === null ? null : y - e[i])),
      v.map((y, i) => (e[i] === null || y === null ? null : y + e[i])),
      loss,
    ],
    series: [
      { stroke: css("--main"), width: 2, points: { size: 5, fill: css("--main") }, spanGaps: true },
      { stroke: "transparent", points: { show: false } },
      { stroke: "transparent", points: { show: false } },
      { stroke: css("--second"), width: 1.5, points: { show: false }, spanGaps: true },
    ],
    bands: [{ series: [3, 2], fill: css("--band") }],
    range: () => [low - pad, high + pad],
    pick: go,
    hover: (i) => {
      const p = finite(i) && model.points.get(model.order[i]);
      hover.textContent = p
        ? weightsText(p) +
          ": " +
          label(c) +
          " " +
          digits(value(p, c)) +
          (finite(bar[i]) ? ", to the minimum ± " + digits(bar[i], 2) : "")
        : "\u00a0";
    },
    under: (u, g, px, py, b) => {
      g.fillStyle = css("--alike");
      model.order.forEach((k, i) => {
        if (alike.has(k)) {
          const from = px(edge(i, i - 1));
          g.fillRect(from, b.top, Math.max(2, px(edge(i, i + 1)) - from), b.height);
        }
      });
    },
    over: (u, g, px, py, b) => {
      g.strokeStyle = css("--main");
      g.lineWidth = devicePixelRatio;
      v.forEach((y, i) => {
        if (y !== null && finite(bar[i])) line(g, px(x[i]), py(y - bar[i]), px(x[i]), py(y + bar[i]));
      });
      g.fillStyle = css("--bad");
      atAll((p) => p).forEach((p, i) => {
        if (!trusted(p) && v[i] !== null) g.fillRect(px(x[i]) - 5, py(v[i]) - 5, 10, 10);
      });
      if (own && best())
        marked(g, px(best()[axes()[0]]), b, model.summary ? "minimum" : "least so far", css("--mark"), 0);
      if (own && chosen() && chosen() !== best()) marked(g, px(chosen()[axes()[0]]), b, s.rule, css("--mark"), 1);
      for (const a of audit) {
        const at = px(chosen()[axes()[0]]);
        g.strokeStyle = g.fillStyle = css("--bad");
        g.lineWidth = 2 * devicePixelRatio;
        line(g, at, py(a.error - a.error_stderr), at, py(a.error + a.error_stderr));
        g.beginPath();
        g.arc(at, py(a.error), 4 * devicePixelRatio, 0, 7);
        g.fill();
      }
      here(g, px(current()[axes()[0]]), b);
    },
  });
  section.append(
    hover,
    key2(
      swatch("--main", label(c)),
      swatch("--band", "± its own standard error"),
      bar.some(finite) && ["", " · bars: error of the difference to the minimum"],
      alike.size ? swatch("--alike", "cannot be told from the minimum") : [],
      loss.some(finite) ? swatch("--second", "true loss") : [],
      audit.length ? swatch("--bad", "audit: fits without some observations") : [],
    ),
    note((doc.criteria[c] || {}).help || ""),
  );
  return { move: () => u.redraw(false), end: () => u.destroy() };
}

function freedomPanel(section) {
  const u = chart(section, {
    says: "degrees of freedom over the weight",
    log: true,
    x: symbols[axes()[0]],
    data: [weightsAll(), atAll((p) => p.divergence)],
    pick: go,
    series: [{ stroke: css("--main"), width: 2, points: { size: 5, fill: css("--main") } }],
    over: (u, g, px, py, b) => here(g, px(current()[axes()[0]]), b),
  });
  section.append(
    note("The divergence of the fit: how much of the noise it follows, 0 for none and " + about().d + " for all."),
  );
  return { move: () => u.redraw(false), end: () => u.destroy() };
}

// A sequence and its fit, or of a table's rows the residual over the fit.
function fitPanel(section) {
  const rows = kind() === "rows",
    y = numbers(frame("data")),
    of = frame("fit", current()).of;
  const dots = { stroke: css("--second"), paths: () => null, points: { show: true, size: 4, fill: css("--second") } };
  const curve = { stroke: css("--main"), width: 2, points: { show: false } };
  const data = (at) => {
    const f = numbers(frame("fit", at)) || numbers(frame("fit", current()));
    if (!rows) return [[...f].map((_, i) => i * (of.every || 1)), y ? [...y] : [...f].map(() => null), [...f]];
    const order = [...f.keys()].sort((i, j) => f[i] - f[j]);
    return [order.map((i) => f[i]), order.map((i) => (y ? y[i] - f[i] : null))];
  };
  const u = chart(section, {
    says: rows ? "residuals over fitted values" : "data and fit",
    data: data(current()),
    x: rows ? "fitted value" : "place",
    series: rows ? [dots] : [dots, curve],
    over: (u, g, px, py, b) => {
      if (rows) {
        g.strokeStyle = css("--soft");
        line(g, b.left, py(0), b.left + b.width, py(0));
      }
    },
  });
  const text = note();
  section.append(text);
  const show = () => {
    u.setData(data(shown()));
    text.textContent =
      (rows ? "Residuals y − mu_hat over mu_hat" : "y and mu_hat") +
      " at " +
      weightsText(shown()) +
      (of.every > 1 ? ", one in " + of.every : "") +
      ".";
  };
  return { move: show, blink: show, end: () => u.destroy() };
}
function lagsPanel(section) {
  const of = (p) => (p.look && p.look.correlation ? p.look.correlation.values.slice(1) : []);
  const lags = of(current()).map((_, i) => i + 1),
    bound = 2 / Math.sqrt(current().look.correlation.of);
  const u = chart(section, {
    says: "correlation of the residual by its lag",
    data: [lags, of(current())],
    x: "lag",
    series: [
      { stroke: css("--main"), fill: css("--main"), paths: uPlot.paths.bars({ size: [0.5] }), points: { show: false } },
    ],
    range: (u, low, high) => [Math.min(low, -0.2), Math.max(high, 0.2)],
    over: (u, g, px, py, b) => {
      g.strokeStyle = css("--soft");
      for (const v of [-bound, bound]) line(g, b.left, py(v), b.left + b.width, py(v));
    },
  });
  section.append(note("White noise stays between the lines, ± " + digits(bound, 1) + ", at most lags."));
  return { move: () => u.setData([lags, of(shown())]), end: () => u.destroy() };
}

// Monte Carlo runs.
const main = () => ["sure", "gcv", "alo"].find((k) => (model.series[k] || []).length) || "sure";
const given = (x) => (x || []).filter(finite);
function histogramPanel(section) {
  const x = given(model.series[main()]),
    low = Math.min(...x),
    high = Math.max(...x),
    n = Math.max(5, Math.min(60, Math.round(Math.sqrt(x.length) * 1.5))),
    width = (high - low) / n || 1,
    count = new Array(n).fill(0);
  for (const v of x) count[Math.min(n - 1, Math.floor((v - low) / width))]++;
  const u = chart(section, {
    says: "histogram of " + label(main()),
    x: label(main()),
    data: [count.map((_, i) => low + (i + 0.5) * width), count],
    across: () => [low, high > low ? high : low + 1],
    range: (u, a, b) => [0, b * 1.05 || 1],
    series: [
      { stroke: css("--main"), fill: css("--band"), points: { show: false }, paths: uPlot.paths.bars({ size: [1] }) },
    ],
  });
  section.append(note(x.length + " samples."));
  return { end: () => u.destroy() };
}
function runningPanel(section) {
  const which = given(model.series.error).length ? "error" : main(),
    x = given(model.series[which]);
  const mean = [],
    low = [],
    high = [];
  let sum = 0,
    squares = 0;
  x.forEach((v, i) => {
    const before = i ? sum / i : 0;
    sum += v;
    squares += (v - before) * (v - sum / (i + 1));
    const e = i ? Math.sqrt(squares / i / (i + 1)) : null;
    mean.push(sum / (i + 1));
    low.push(e === null ? null : mean[i] - e);
    high.push(e === null ? null : mean[i] + e);
  });
  const u = chart(section, {
    says: "running mean",
    x: "samples",
    data: [x.map((_, i) => i + 1), mean, low, high],
    series: [
      { stroke: css("--main"), width: 2, points: { show: false } },
      { stroke: "transparent" },
      { stroke: "transparent" },
    ],
    bands: [{ series: [3, 2], fill: css("--band") }],
    over: (u, g, px, py, b) => {
      if (which === "error") {
        g.strokeStyle = css("--soft");
        line(g, b.left, py(0), b.left + b.width, py(0));
      }
    },
  });
  section.append(
    note(
      which === "error"
        ? "SURE − loss, ± its standard error: 0 in expectation."
        : label(which) + ", ± its standard error.",
    ),
  );
  return { end: () => u.destroy() };
}
function summaryPanel(section) {
  const rows = Object.entries(model.summary).filter(([k, v]) => finite(v));
  section.append(
    make(
      "div",
      { class: "scroll" },
      make(
        "table",
        {},
        make(
          "tbody",
          {},
          ...rows.map(([k, v]) =>
            make("tr", {}, make("td", {}, k.replaceAll("_", " ")), make("td", { class: "number" }, digits(v, 6))),
          ),
        ),
      ),
    ),
  );
}

// Panels of curves, which uPlot draws.

// chart draws curves by uPlot. Those over the weights (weights) have a logarithmic axis, a line at the current point,
// which a click moves, and the part of it to which a drag has zoomed; a double click shows all. under and over draw
// below and above the curves.
function chart(section, o) {
  const host = make("div", { role: "img", "aria-label": o.says });
  section.append(host);
  const font = "12px system-ui, sans-serif", soft = css("--soft"), grid = css("--grid");
  const axis = { stroke: soft, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid }, font };
  const values = (u, splits) => splits.map((v) => (v === null ? "" : digits(v, 4)));
  const view = (u, a, b) => {
    const [from, to] = model.zoom || [a, b], pad = from < to ? (to / from) ** 0.02 : 2;
    return [from / pad, to * pad];
  };
  const over = (u, c, px, py, b) => {
    if (o.over) o.over(u, c, px, py, b);
    if (o.weights) line(c, px(weightOf(current())), b.top, null, b.top + b.height, css("--main"), 2);
  };
  const zoom = (to) => {
    model.zoom = to;
    setTimeout(rebuild); // the events of the mouse under way are those of this chart
  };
  const size = () => ({ width: Math.max(200, host.clientWidth), height: 260 });
  const u = new uPlot(
    {
      ...size(),
      scales: {
        x: { time: false, distr: o.weights ? 3 : 1, range: o.weights ? view : o.across },
        y: { range: o.range },
      },
      legend: { show: false },
      series: [{}, ...o.series.map((s) => ({ points: { show: false }, ...s }))],
      bands: o.bands,
      axes: [
        { ...axis, values, ...(o.weights && weightTicks), label: o.weights ? symbols[axes()[0]] : o.x, labelSize: 18,
          labelFont: font },
        { ...axis, values, size: 66, label: o.y, labelSize: 18, labelFont: font },
      ],
      cursor: {
        drag: { x: true, y: false, dist: 5, setScale: !o.weights },
        focus: { prox: o.focus ? 24 : -1 },
        points: { show: !o.focus },
      },
      focus: { alpha: 0.2 },
      hooks: {
        drawClear: [(u) => clipped(u, o.under)],
        draw: [(u) => clipped(u, over)],
        setSeries: [(u, i) => o.focus && o.focus(i)],
        setCursor: [(u) => o.hover && o.hover(u.cursor.idx)],
        setSelect: [
          (u) => {
            const { left, width } = u.select;
            if (o.weights && width > 0) zoom([u.posToVal(left, "x"), u.posToVal(left + width, "x")]);
          },
        ],
      },
    },
    o.weights ? [atAll(weightOf), ...o.data] : o.data,
    host,
  );
  new ResizeObserver(() => size().width !== u.width && u.setSize(size())).observe(host);
  if (o.weights) {
    u.over.addEventListener("click", () => u.cursor.idx !== null && go(u.cursor.idx));
    u.over.addEventListener("dblclick", () => model.zoom && zoom(null));
  }
  return u;
}
// weightTicks are ticks at the digits of every decade, or at round steps of less than half of one, with as many labels
// as have room.
const weightTicks = {
  splits: (u, axis, min, max) => {
    const every = (step) => {
      const first = Math.ceil(min / step);
      return Array.from({ length: Math.floor(max / step) - first + 1 }, (_, i) => (first + i) * step);
    };
    if (max / min < 3) {
      const ten = 10 ** Math.floor(Math.log10((max - min) / 3));
      return every(ten * [5, 2, 1].find((m) => m * ten <= (max - min) / 3));
    }
    const ticks = [];
    for (let e = Math.floor(Math.log10(min)); 10 ** e <= max; e++) {
      for (let m = 1; m < 10; m++) ticks.push(m * 10 ** e);
    }
    return ticks.filter((v) => v >= min && v <= max);
  },
  filter: (u, splits) => {
    const { min, max } = u.scales.x, labels = max / min < 3 ? /^/ : max / min < 100 ? /^[125]/ : /^1/;
    return splits.map((v) => (labels.test(v.toExponential(6)) ? v : null));
  },
};
const drawn = (u) => ({ move: () => u.redraw(false), end: () => u.destroy() });
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
// line draws a line, upright where x2 is null.
function line(c, x1, y1, x2, y2, colour, width = 1) {
  c.strokeStyle = colour;
  c.lineWidth = width * devicePixelRatio;
  c.beginPath();
  c.moveTo(x1, y1);
  c.lineTo(x2 === null ? x1 : x2, y2);
  c.stroke();
}
const across = (c, y, b) => line(c, b.left, y, b.left + b.width, y, css("--soft"));
function marked(c, x, b, text, row) {
  const scale = devicePixelRatio, right = x > b.left + b.width / 2;
  c.setLineDash([4 * scale, 3 * scale]);
  line(c, x, b.top, null, b.top + b.height, css("--mark"));
  c.setLineDash([]);
  c.fillStyle = css("--mark");
  c.font = 12 * scale + "px system-ui, sans-serif";
  c.textAlign = right ? "right" : "left";
  c.fillText(text, x + (right ? -4 : 4) * scale, b.top + (14 + 15 * row) * scale);
}
// legend is a note of pairs of a colour and what has it.
function legend(...pairs) {
  return note(...pairs.filter((p) => p).flatMap(([colour, text]) => {
    const swatch = make("span", { class: "swatch" });
    swatch.style.background = colour && css(colour);
    return colour ? [swatch, text] : [text];
  }));
}
const weightOf = (p) => p[axes()[0]];
const mainLine = (more) => ({ stroke: css("--main"), width: 2, ...more });
const mainDots = () => mainLine({ points: { size: 5, fill: css("--main") } });
// edges are those of the band between the second and the third series.
const edges = [{ stroke: "transparent" }, { stroke: "transparent" }];
const bands = () => [{ series: [3, 2], fill: css("--band") }];

function criteriaPanel(section) {
  const c = model.criterion, rule = doc.criteria[c] || {}, s = model.summary || {}, own = model.header.criterion === c;
  const all = Object.keys(doc.criteria).filter((k) => atAll((p) => value(p, k)).some((v) => v !== null));
  const options = all.map((k) => make("option", { value: k, ...(k === c && { selected: "" }) }, label(k)));
  const choose = () => {
    model.criterion = pick.value;
    rebuild();
  };
  const pick = make("select", { "aria-label": "criterion", onchange: choose }, ...options);
  section.firstChild.append(" ", pick);
  const x = atAll(weightOf), v = atAll((p) => value(p, c)), e = atAll((p) => value(p, c + "_stderr"));
  const loss = rule.sigma2 ? atAll((p) => value(p, "loss")) : x.map(() => null);
  const bar = atAll((p) => (own && s.difference_stderr ? s.difference_stderr[p.index] : null));
  const alike = new Set(own ? s.alike : []);
  const audit = (s.audit || []).filter((a) => a.criterion === c && !a.by);
  const minus = (sign, e) => v.map((y, i) => (e[i] === null || y === null ? null : y + sign * e[i]));
  // Points that overfit do not set the scale, unless all do.
  const overfits = atAll((p) => own && p.overfits), some = overfits.includes(true) && !overfits.every(Boolean);
  const inside = (w) => !model.zoom || (w >= model.zoom[0] && w <= model.zoom[1]);
  const audited = inside(weightOf(chosen() || current())) ? audit : [];
  const bars = bar.map((b) => b || 0);
  const seen = [
    ...[minus(-1, bars), minus(1, bars), loss].flatMap((of) => of.filter((_, i) => inside(x[i]) && !(some && overfits[i]))),
    ...audited.flatMap((a) => [a.error - a.error_stderr, a.error + a.error_stderr]),
  ].filter(finite);
  const low = Math.min(...seen), high = Math.max(...seen), pad = 0.06 * (high - low || Math.abs(high) || 1);
  const edge = (i, j) =>
    x[j] === undefined ? x[i] * Math.sqrt(x[i] / (x[2 * i - j] || x[i])) : Math.sqrt(x[i] * x[j]);
  const hint = "Drag across the curve to zoom" + (model.zoom ? "; a double click shows all." : ".");
  const hover = note(hint);
  const u = chart(section, {
    says: label(c) + " over the weight",
    weights: true,
    data: [v, minus(-1, e), minus(1, e), loss],
    series: [{ ...mainDots(), spanGaps: true }, ...edges, { stroke: css("--second"), width: 1.5, spanGaps: true }],
    bands: bands(),
    range: (u, a, b) => (seen.length ? [low - pad, high + pad] : [a, b]),
    hover: (i) => {
      const p = finite(i) && model.points.get(model.order[i]);
      const off = p && finite(bar[i]) ? ", to the minimum ± " + digits(bar[i], 2) : "";
      hover.textContent = p ? weightsText(p) + ": " + label(c) + " " + digits(value(p, c)) + off : hint;
    },
    under: (u, g, px, py, b) => {
      g.fillStyle = css("--alike");
      model.order.forEach((k, i) => {
        const from = px(edge(i, i - 1));
        if (alike.has(k)) g.fillRect(from, b.top, Math.max(2, px(edge(i, i + 1)) - from), b.height);
      });
    },
    over: (u, g, px, py, b) => {
      atAll((p) => p).forEach((p, i) => {
        if (v[i] === null) return;
        if (finite(bar[i])) line(g, px(x[i]), py(v[i] - bar[i]), null, py(v[i] + bar[i]), css("--main"));
        g.fillStyle = g.strokeStyle = css("--bad");
        g.lineWidth = devicePixelRatio;
        if (!trusted(p)) g.fillRect(px(x[i]) - 5, py(v[i]) - 5, 10, 10);
        else if (overfits[i]) g.strokeRect(px(x[i]) - 3, py(v[i]) - 3, 6, 6);
      });
      if (own && best()) marked(g, px(weightOf(best())), b, model.summary ? "minimum" : "least so far", 0);
      if (own && chosen() && chosen() !== best()) marked(g, px(weightOf(chosen())), b, s.rule, 1);
      for (const a of audit) {
        const at = px(weightOf(chosen()));
        line(g, at, py(a.error - a.error_stderr), null, py(a.error + a.error_stderr), css("--bad"), 2);
        g.fillStyle = css("--bad");
        g.beginPath();
        g.arc(at, py(a.error), 4 * devicePixelRatio, 0, 7);
        g.fill();
      }
    },
  });
  section.append(
    hover,
    legend(
      ["--main", label(c)],
      ["--band", "± its own standard error"],
      bar.some(finite) && ["", " · bars: error of the difference to the minimum"],
      overfits.includes(true) && ["", " · □ overfits, is not chosen"],
      alike.size && ["--alike", "cannot be told from the minimum"],
      loss.some(finite) && ["--second", "true loss"],
      audit.length && ["--bad", "audit: fits without some observations"],
    ),
    note(rule.help || ""),
  );
  return drawn(u);
}

function freedomPanel(section) {
  const u = chart(section, {
    says: "degrees of freedom over the weight",
    weights: true,
    data: [atAll((p) => p.divergence)],
    series: [mainDots()],
  });
  section.append(
    note("The divergence of the fit: how much of the noise it follows, 0 for none and " + (first().entries || first().d) + " for all."),
  );
  return drawn(u);
}

// A sequence and its fit, or of a table's rows the residual over the fit.
function fitPanel(section) {
  const rows = kind() === "rows", y = numbers(frame("data")), of = frame("fit", current()).of;
  const dots = { stroke: css("--second"), paths: () => null, points: { show: true, size: 4, fill: css("--second") } };
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
    series: rows ? [dots] : [dots, mainLine()],
    over: (u, g, px, py, b) => rows && across(g, py(0), b),
  });
  const text = note(), what = rows ? "Residuals y − mu_hat over mu_hat" : "y and mu_hat";
  const some = of.every > 1 ? ", one in " + of.every : "";
  section.append(text);
  const show = () => {
    u.setData(data(shown()));
    text.textContent = what + " at " + weightsText(shown()) + some + ".";
  };
  return { move: show, blink: show, end: () => u.destroy() };
}
function lagsPanel(section) {
  const of = (p) => (p.look && p.look.correlation ? p.look.correlation.values.slice(1) : []);
  const lags = of(current()).map((_, i) => i + 1), bound = 2 / Math.sqrt(current().look.correlation.of);
  const u = chart(section, {
    says: "correlation of the residual by its lag",
    data: [lags, of(current())],
    x: "lag",
    series: [{ stroke: css("--main"), fill: css("--main"), paths: uPlot.paths.bars({ size: [0.5] }) }],
    range: (u, low, high) => [Math.min(low, -0.2), Math.max(high, 0.2)],
    over: (u, g, px, py, b) => [-bound, bound].forEach((v) => across(g, py(v), b)),
  });
  section.append(note("White noise stays between the lines, ± " + digits(bound, 1) + ", at most lags."));
  return { move: () => u.setData([lags, of(shown())]), end: () => u.destroy() };
}

// Monte Carlo runs.
const drawnSeries = () => ["sure", "gcv", "alo"].find((k) => (model.series[k] || []).length) || "sure";
const given = (x) => (x || []).filter(finite);
function histogramPanel(section) {
  const x = given(model.series[drawnSeries()]), low = Math.min(...x), high = Math.max(...x);
  const n = Math.max(5, Math.min(60, Math.round(Math.sqrt(x.length) * 1.5))), width = (high - low) / n || 1;
  const count = new Array(n).fill(0);
  for (const v of x) count[Math.min(n - 1, Math.floor((v - low) / width))]++;
  const u = chart(section, {
    says: "histogram of " + label(drawnSeries()),
    x: label(drawnSeries()),
    data: [count.map((_, i) => low + (i + 0.5) * width), count],
    across: () => [low, high > low ? high : low + 1],
    range: (u, a, b) => [0, b * 1.05 || 1],
    series: [{ stroke: css("--main"), fill: css("--band"), paths: uPlot.paths.bars({ size: [1] }) }],
  });
  section.append(note(x.length + " samples."));
  return { end: () => u.destroy() };
}
function runningPanel(section) {
  const unbiased = given(model.series.error).length > 0, which = unbiased ? "error" : drawnSeries();
  const x = given(model.series[which]), mean = [], low = [], high = [];
  let sum = 0, squares = 0;
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
    series: [mainLine(), ...edges],
    bands: bands(),
    over: (u, g, px, py, b) => unbiased && across(g, py(0), b),
  });
  const what = unbiased ? "SURE − loss" : label(which), mean0 = unbiased ? ": 0 in expectation." : ".";
  section.append(note(what + ", ± its standard error" + mean0));
  return { end: () => u.destroy() };
}

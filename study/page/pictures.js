// Panels of pictures, which are drawn pixel by pixel.

// A map of the criterion over two weights: cells are points of the grid.
function mapPanel(section) {
  const [a, b] = axes(),
    c = model.criterion,
    s = model.summary || {};
  const canvas = make("canvas", { role: "img", "aria-label": "map of " + label(c) + " over two weights" });
  section.append(
    canvas,
    note(
      "Across " +
        symbols[a] +
        ", upwards " +
        symbols[b] +
        ": dark is less. ○ minimum, dots cannot " +
        "be told from it, □ this point.",
    ),
  );
  const grid = atAll((p) => p).filter((p) => p.stage !== "refine");
  const xs = [...new Set(grid.map((p) => p[a]))].sort((p, q) => p - q),
    ys = [...new Set(grid.map((p) => p[b]))].sort((p, q) => p - q);
  const v = grid
    .map((p) => value(p, c))
    .filter((x) => x !== null)
    .sort((p, q) => p - q);
  const low = v[0],
    high = v[Math.floor(0.9 * (v.length - 1))];
  const width = section.clientWidth - 28,
    height = Math.round(width * 0.6),
    scale = devicePixelRatio;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = width + "px";
  const place = (all, w) => {
    const k = all.findIndex((x) => x >= w * (1 - 1e-12));
    if (k < 0) return all.length - 0.5;
    return k === 0 || all[k] <= w * (1 + 1e-12)
      ? k + 0.5
      : k - 0.5 + Math.log(w / all[k - 1]) / Math.log(all[k] / all[k - 1]);
  };
  const to = (p) => [(place(xs, p[a]) / xs.length) * canvas.width, (1 - place(ys, p[b]) / ys.length) * canvas.height];
  const draw = () => {
    const g = canvas.getContext("2d"),
      w = canvas.width / xs.length,
      h = canvas.height / ys.length;
    g.clearRect(0, 0, canvas.width, canvas.height);
    for (const p of grid) {
      const y = value(p, c),
        [cx, cy] = to(p);
      g.fillStyle = y === null ? css("--grid") : "rgb(" + sequential((y - low) / (high - low || 1)) + ")";
      g.fillRect(cx - w / 2, cy - h / 2, w + 1, h + 1);
      if ((s.alike || []).includes(p.index)) {
        g.fillStyle = "#fff";
        g.fillRect(cx - 2, cy - 2, 4, 4);
      }
    }
    const ring = (p, f) => {
      if (p) {
        g.strokeStyle = "#fff";
        g.lineWidth = 2 * scale;
        g.beginPath();
        f(...to(p));
        g.stroke();
      }
    };
    ring(best(), (x, y) => g.arc(x, y, 6 * scale, 0, 7));
    ring(current(), (x, y) => g.rect(x - 9 * scale, y - 9 * scale, 18 * scale, 18 * scale));
  };
  canvas.addEventListener("click", (e) => {
    const near = (p) => {
      const [x, y] = to(p);
      return (x / scale - e.offsetX) ** 2 + (y / scale - e.offsetY) ** 2;
    };
    goTo(atAll((p) => p).reduce((p, q) => (near(q) < near(p) ? q : p)));
  });
  return { move: draw };
}

// Colours: from 0 to 1 dark violet to yellow, and from -1 to 1 blue, white, red.
const stops = [
  [45, 13, 84],
  [57, 69, 130],
  [50, 124, 148],
  [71, 172, 132],
  [152, 213, 98],
  [251, 246, 96],
];
function sequential(t) {
  const x = Math.min(0.9999, Math.max(0, t)) * (stops.length - 1),
    k = Math.floor(x);
  return stops[k].map((v, i) => Math.round(v + (x - k) * (stops[k + 1][i] - v)));
}
function diverging(t) {
  const x = Math.min(1, Math.abs(t)),
    end = t < 0 ? [0, 68, 169] : [151, 0, 8];
  return end.map((v) => Math.round(250 + x * (v - 250)));
}
const gray = (t) => {
  const v = Math.round(255 * Math.min(1, Math.max(0, t)));
  return [v, v, v];
};
// paint draws values as pixels; missing ones stay empty.
function paint(canvas, x, shape, colour, low, high) {
  const [rows, cols, channels = 1] = shape,
    image = new ImageData(cols, rows);
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
const quantile = (x, q) => {
  const s = Float32Array.from(x)
    .filter((v) => !Number.isNaN(v))
    .sort();
  return s[Math.max(0, Math.min(s.length - 1, Math.floor(q * s.length)))];
};
const minus = (x, y) => x.map((v, i) => v - y[i]);
function pictures(caption) {
  const canvas = make("canvas", { class: "picture", role: "img", "aria-label": caption });
  const text = make("figcaption", {}, caption);
  return { canvas, text, figure: make("figure", {}, canvas, text) };
}
function picturePanel(section) {
  const row = make("div", { class: "pictures" });
  section.append(row);
  const f0 = frame("fit", chosen() || current()) || frame("fit", current()),
    data = frame("data"),
    y = numbers(data);
  const matrix = kind() === "matrix",
    colour = matrix ? sequential : gray;
  const range = (x) => (matrix ? [quantile(x, 0.01), quantile(x, 0.99)] : [quantile(x, 0.002), quantile(x, 0.998)]);
  const comparable = f0 && data && String(f0.of.shape) === String(data.of.shape);
  const size = (f) =>
    " · " +
    f.of.shape.slice(0, 2).join(" × ") +
    (f.of.means > 1 ? ", means of " + f.of.means + " × " + f.of.means + " pixels" : "") +
    (f.of.every > 1 ? ", every " + f.of.every + "th row and column" : "");
  const painters = [],
    add = (caption, f) => {
      const p = pictures(caption);
      row.append(p.figure);
      painters.push((at) => f(p, at));
    };
  const s0 = frame("signal", chosen() || current());
  if (data)
    add(
      "y" + size(data),
      (p) =>
        p.done ||
        (p.done = paint(p.canvas, y, data.of.shape, colour, ...range(comparable && !s0 ? numbers(f0) : y)) || true),
    );
  if (f0) {
    const scale = range(numbers(f0));
    add("", (p, at) => {
      const f = frame("fit", at);
      p.text.textContent =
        (s0 ? "fit to y" : matrix ? "completed matrix" : "estimate") +
        " at " +
        weightsText(at) +
        (f ? size(f) : ": no picture was kept");
      if (f) paint(p.canvas, numbers(f), f.of.shape, colour, ...scale);
    });
  }
  if (s0) {
    const scale = range(numbers(s0));
    add("", (p, at) => {
      const f = frame("signal", at);
      p.text.textContent = "estimate of the image at " + weightsText(at) + (f ? size(f) : ": no picture was kept");
      if (f) paint(p.canvas, numbers(f), f.of.shape, gray, ...scale);
    });
  }
  if (comparable) {
    const most = quantile(minus(y, numbers(f0)).map(Math.abs), 0.995) || 1;
    add("", (p, at) => {
      const f = frame("fit", at);
      p.text.textContent =
        "residual y − " +
        (s0 ? "fit" : "estimate") +
        ", ± " +
        digits(most, 2) +
        (matrix ? ", where observed" : "") +
        (f ? "" : ": no picture was kept");
      if (f) paint(p.canvas, luminance(minus(y, numbers(f)), f.of.shape), f.of.shape.slice(0, 2), diverging, 0, most);
    });
  }
  const c0 = atAll((p) => p.look && p.look.correlation).filter((c) => c && c.shape.length === 2);
  if (c0.length) {
    const most = Math.max(...c0.map((c) => off(c)[0]));
    add("", (p, at) => {
      const c = at.look && at.look.correlation;
      if (!c) return;
      const [big, s, t] = off(c);
      p.text.textContent =
        "correlation of the residual at lags up to " +
        (c.shape[0] - 1) / 2 +
        ", ± " +
        digits(most, 2) +
        "; largest " +
        digits(big, 2) +
        " at (" +
        s +
        ", " +
        t +
        "), beside ± " +
        digits(2 / Math.sqrt(c.of), 1) +
        " of white noise";
      paint(p.canvas, c.values, c.shape, diverging, 0, most);
    });
  }
  const show = () => painters.forEach((f) => f(shown()));
  return { move: show, blink: show };
}
function luminance(x, shape) {
  const n = shape[2] || 1;
  return n === 1
    ? x
    : Float32Array.from({ length: x.length / n }, (_, i) => (x[n * i] + x[n * i + 1] + x[n * i + 2]) / n);
}
// off is the largest correlation away from the middle, and its lag.
function off(c) {
  const side = c.shape[0],
    middle = (side - 1) / 2;
  return c.values.reduce(
    (m, v, i) =>
      i !== middle * side + middle && Math.abs(v) > m[0]
        ? [Math.abs(v), Math.floor(i / side) - middle, (i % side) - middle]
        : m,
    [0, 0, 0],
  );
}

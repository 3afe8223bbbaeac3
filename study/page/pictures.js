// Panels of pictures, which are drawn pixel by pixel.

// A map of the criterion over two weights: cells are points of the grid.
function mapPanel(section) {
  const [a, b] = axes(), c = model.criterion, alike = (model.summary || {}).alike || [];
  const canvas = make("canvas", { role: "img", "aria-label": "map of " + label(c) + " over two weights" });
  const signs = ": dark is less. ○ minimum, dots cannot be told from it, □ this point.";
  section.append(canvas, note("Across " + symbols[a] + ", upwards " + symbols[b] + signs));
  const grid = atAll((p) => p).filter((p) => p.stage !== "refine");
  const [xs, ys] = [a, b].map((w) => [...new Set(grid.map((p) => p[w]))].sort((p, q) => p - q));
  const v = grid.map((p) => value(p, c)).filter((x) => x !== null).sort((p, q) => p - q);
  const low = v[0], high = v[Math.floor(0.9 * (v.length - 1))];
  const scale = devicePixelRatio;
  canvas.width = (section.clientWidth - 28) * scale;
  canvas.height = Math.round(canvas.width * 0.6);
  canvas.style.width = "100%";
  // place is where a weight stands, in cells: that of a refined point between two of the grid.
  const place = (all, w) => {
    const k = all.findIndex((x) => x >= w * (1 - 1e-12));
    if (k < 0) return all.length - 0.5;
    return k === 0 || all[k] <= w * (1 + 1e-12)
      ? k + 0.5
      : k - 0.5 + Math.log(w / all[k - 1]) / Math.log(all[k] / all[k - 1]);
  };
  const to = (p) => [(place(xs, p[a]) / xs.length) * canvas.width, (1 - place(ys, p[b]) / ys.length) * canvas.height];
  const draw = () => {
    const g = canvas.getContext("2d"), w = canvas.width / xs.length, h = canvas.height / ys.length;
    g.clearRect(0, 0, canvas.width, canvas.height);
    for (const p of grid) {
      const y = value(p, c), [cx, cy] = to(p);
      g.fillStyle = y === null ? css("--grid") : "rgb(" + sequential((y - low) / (high - low || 1)) + ")";
      g.fillRect(cx - w / 2, cy - h / 2, w + 1, h + 1);
      g.fillStyle = "#fff";
      if (alike.includes(p.index)) g.fillRect(cx - 2, cy - 2, 4, 4);
    }
    const ring = (p, f) => {
      if (!p) return;
      g.strokeStyle = "#fff";
      g.lineWidth = 2 * scale;
      g.beginPath();
      f(...to(p));
      g.stroke();
    };
    ring(best(), (x, y) => g.arc(x, y, 6 * scale, 0, 7));
    ring(current(), (x, y) => g.rect(x - 9 * scale, y - 9 * scale, 18 * scale, 18 * scale));
  };
  canvas.addEventListener("click", (e) => {
    const by = canvas.clientWidth / canvas.width;
    const off = (p) => Math.hypot(to(p)[0] * by - e.offsetX, to(p)[1] * by - e.offsetY);
    goTo(atAll((p) => p).reduce((p, q) => (off(q) < off(p) ? q : p)));
  });
  return { move: draw };
}

// Colours: from 0 to 1 dark violet to yellow or black to white, and from -1 to 1 blue, white, red.
const stops = [[45, 13, 84], [57, 69, 130], [50, 124, 148], [71, 172, 132], [152, 213, 98], [251, 246, 96]];
function sequential(t) {
  const x = Math.min(0.9999, Math.max(0, t)) * (stops.length - 1), k = Math.floor(x);
  return stops[k].map((v, i) => Math.round(v + (x - k) * (stops[k + 1][i] - v)));
}
function diverging(t) {
  const x = Math.min(1, Math.abs(t)), end = t < 0 ? [0, 68, 169] : [151, 0, 8];
  return end.map((v) => Math.round(250 + x * (v - 250)));
}
const gray = (t) => new Array(3).fill(Math.round(255 * Math.min(1, Math.max(0, t))));
// paint draws values as pixels; missing ones stay empty. A matrix with one side more than longest times the other is
// stretched to that.
const longest = 2;
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
  const long = Math.max(rows / cols, cols / rows) > longest && kind() === "matrix";
  canvas.style.aspectRatio = long ? (rows > cols ? "1 / " + longest : longest + " / 1") : "";
  canvas.style.objectFit = long ? "fill" : "";
  canvas.getContext("2d").putImageData(image, 0, 0);
}
const quantile = (x, q) => {
  const s = Float32Array.from(x).filter((v) => !Number.isNaN(v)).sort();
  return s[Math.max(0, Math.min(s.length - 1, Math.floor(q * s.length)))];
};
const minus = (x, y) => x.map((v, i) => v - y[i]);
// luminance is the mean of the channels.
function luminance(x, [, , n = 1]) {
  const mean = (_, i) => x.subarray(n * i, n * (i + 1)).reduce((a, b) => a + b) / n;
  return n === 1 ? x : Float32Array.from({ length: x.length / n }, mean);
}
// largest is the largest correlation away from the middle, and its lag.
function largest(c) {
  const side = c.shape[0], middle = (side - 1) / 2;
  return c.values.reduce(
    (most, v, i) =>
      i !== middle * side + middle && Math.abs(v) > most[0]
        ? [Math.abs(v), Math.floor(i / side) - middle, (i % side) - middle]
        : most,
    [0, 0, 0],
  );
}

function picturePanel(section) {
  const row = make("div", { class: "pictures" }), painters = [];
  section.append(row);
  const from = (what) => frame(what, chosen() || current()) || frame(what, current());
  const f0 = from("fit"), s0 = from("signal"), data = frame("data"), y = numbers(data);
  const matrix = kind() === "matrix", colour = matrix ? sequential : gray, cut = matrix ? 0.01 : 0.002;
  const range = (x) => [quantile(x, cut), quantile(x, 1 - cut)];
  const comparable = f0 && data && String(f0.of.shape) === String(data.of.shape);
  const size = ({ of }) =>
    " · " + of.shape.slice(0, 2).join(" × ") +
    (of.means > 1 ? ", means of " + of.means + " × " + of.means + " pixels" : "") +
    (of.every > 1 ? ", every " + of.every + "th row and column" : "") +
    (matrix && Math.max(...of.shape) > longest * Math.min(...of.shape) ? ", not to scale" : "");
  // add adds a picture, whose text and pixels f sets for a point.
  const add = (f) => {
    const canvas = make("canvas", { class: "picture", role: "img" }), text = make("figcaption");
    row.append(make("figure", {}, canvas, text));
    painters.push((at) => {
      text.textContent = f(canvas, at);
      canvas.setAttribute("aria-label", text.textContent);
    });
  };
  // estimates adds the pictures of an estimate, all on one scale.
  const estimates = (what, of, caption, colour) => {
    const scale = range(numbers(of));
    add((canvas, at) => {
      const f = frame(what, at);
      if (f) paint(canvas, numbers(f), f.of.shape, colour, ...scale);
      return caption + " at " + weightsText(at) + (f ? size(f) : ": no picture was kept");
    });
  };
  if (data) {
    let done = false;
    add((canvas) => {
      if (!done) paint(canvas, y, data.of.shape, colour, ...range(comparable && !s0 ? numbers(f0) : y));
      done = true;
      return "y" + size(data);
    });
  }
  if (f0) estimates("fit", f0, s0 ? "fit to y" : matrix ? "completed matrix" : "estimate", colour);
  if (s0) estimates("signal", s0, "estimate of the image", gray);
  if (comparable) {
    const most = quantile(minus(y, numbers(f0)).map(Math.abs), 0.995) || 1, where = matrix ? ", where observed" : "";
    add((canvas, at) => {
      const f = frame("fit", at);
      if (f) {
        const residual = luminance(minus(y, numbers(f)), f.of.shape);
        paint(canvas, residual, f.of.shape.slice(0, 2), diverging, 0, most);
      }
      const none = f ? "" : ": no picture was kept";
      return "residual y − " + (s0 ? "fit" : "estimate") + ", ± " + digits(most, 2) + where + none;
    });
  }
  const correlations = atAll((p) => p.look && p.look.correlation).filter((c) => c && c.shape.length === 2);
  if (correlations.length) {
    const most = Math.max(...correlations.map((c) => largest(c)[0]));
    let said = "";
    add((canvas, at) => {
      const c = at.look && at.look.correlation;
      if (!c) return said;
      const [big, s, t] = largest(c), noise = digits(2 / Math.sqrt(c.of), 1);
      paint(canvas, c.values, c.shape, diverging, 0, most);
      return (said =
        `correlation of the residual at lags up to ${(c.shape[0] - 1) / 2}, ± ${digits(most, 2)}; ` +
        `largest ${digits(big, 2)} at (${s}, ${t}), beside ± ${noise} of white noise`);
    });
  }
  const show = () => painters.forEach((f) => f(shown()));
  return { move: show, blink: show };
}

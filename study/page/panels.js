// The panels: a row each, with what it needs and how it is made. make returns what is to be done when the point moves.
const isPath = () => isSweep() && axes().length === 1;
const panels = [
  { title: "Warnings", wide: true, when: () => runWarnings().length, make: warningsPanel },
  { title: "Criteria", when: isPath, make: criteriaPanel },
  { title: "Map of the criterion", when: () => axes().length === 2, make: mapPanel },
  { title: "Degrees of freedom", when: isPath, make: freedomPanel },
  { title: "Samples", when: isMany, make: histogramPanel },
  { title: "Running mean", when: isMany, make: runningPanel },
  { title: "Summary", when: () => isMany() && model.summary, make: summaryPanel },
  { title: "Picture", wide: true, when: () => ["image", "matrix"].includes(kind()), make: picturePanel },
  { title: "Fit", when: () => ["sequence", "rows"].includes(kind()), make: fitPanel },
  { title: "Correlation of the residual", when: () => kind() === "sequence" && current().look.correlation,
    make: lagsPanel },
  { title: "Coefficients", when: () => coefficients(current()).length || pathNames().length, make: coefficientsPanel },
  { title: "This point", when: () => current() && !isMany(), make: numbersPanel },
  { title: "The choice", when: () => isSweep() && model.summary && model.summary.minimizer, make: choicePanel },
  { title: "To make it again", wide: true, when: () => doc.command || doc.python, make: againPanel },
];
let built = [];

// rebuild makes the panels anew.
function rebuild() {
  for (const p of built) if (p.end) p.end();
  built = [];
  const rows = panels.filter((row) => row.when());
  const sections = rows.map((row) =>
    make("section", { class: row.wide && "wide", "aria-label": row.title }, make("h2", {}, row.title)),
  );
  $("panels").replaceChildren(...sections);
  rows.forEach((row, i) => built.push(row.make(sections[i]) || {}));
  move();
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", rebuild);
for (const [event, printing] of [["beforeprint", true], ["afterprint", false]]) {
  addEventListener(event, () => {
    document.documentElement.toggleAttribute("data-print", printing);
    rebuild();
  });
}

const kind = () => {
  const f = current() && (frame("signal", current()) || frame("fit", current()));
  return f && f.of.kind;
};

// table is a table of rows, a name or a button and what belongs to it. Rows of numbers are aligned to the right.
function table(rows, { head, words } = {}) {
  const row = (cells, tag) =>
    make("tr", {}, ...cells.map((c, i) =>
      make(words && i === 0 ? "th" : tag, { class: i > 0 && !words && "number" }, c)));
  return make("table", {}, make("tbody", {}, head && row(head, "th"), ...rows.map((r) => row(r, "td"))));
}

const coefficients = (p) => (p && p.look && p.look.coefficients) || (p && p.coefficients) || [];
// A coefficient is drawn times the standard deviation of its column where the fit divides columns by it: so it does not
// depend on the column's unit.
const sizeOf = (c) => (finite(c.standardized) ? c.standardized : c.estimate);
function ofName(p, n, part) {
  const c = coefficients(p).find((c) => c.name === n);
  return c ? part(c) : 0;
}
const bySize = (size) => (a, b) => size(b) - size(a);
function pathNames() {
  const most = new Map();
  for (const c of isSweep() ? atAll(coefficients).flat() : []) {
    most.set(c.name, Math.max(most.get(c.name) || 0, Math.abs(sizeOf(c))));
  }
  return [...most.keys()].sort(bySize((n) => most.get(n)));
}
function coefficientsPanel(section) {
  const all = pathNames(), names = all.slice(0, 60);
  const hovered = note("\u00a0"), list = make("div", { class: "scroll coefficients", tabindex: "0" });
  const light = matchMedia("(prefers-color-scheme: dark)").matches ? 65 : 40;
  const colour = (i) => `hsl(${Math.round(i * 137.5) % 360} 65% ${light}%)`;
  const standardized = (isSweep() ? atAll(coefficients).flat() : []).some((c) => finite(c.standardized));
  let u = null, focused = 0;
  const tell = (i) => {
    focused = i || 0;
    hovered.replaceChildren(
      ...(i ? [name(names[i - 1]), ": ", digits(ofName(current(), names[i - 1], (c) => c.estimate))]
        : ["Point at a curve, or move to a name, for its path."]),
    );
  };
  // named writes the names of the largest coefficients, and of the one that is pointed at, at the least weight.
  const named = (u, g, px, py, b) => {
    const scale = devicePixelRatio, height = 13 * scale, taken = [];
    const [at] = atAll((p) => p).filter((p) => px(weightOf(p)) >= b.left - 1);
    g.font = 12 * scale + "px system-ui, sans-serif";
    g.textAlign = "left";
    for (const i of [focused - 1, ...names.keys()].filter((i) => i >= 0).slice(0, 7)) {
      const y = py(ofName(at, names[i], sizeOf));
      if (taken.some((t) => Math.abs(t - y) < height)) continue;
      taken.push(y);
      g.fillStyle = colour(i);
      const short = names[i].length > 24 ? names[i].slice(0, 23) + "…" : names[i];
      const where = [b.left + 4 * scale, Math.min(b.top + b.height - 4, Math.max(b.top + height, y - 4 * scale))];
      g.strokeStyle = css("--panel");
      g.lineWidth = 4 * scale;
      g.strokeText(short, ...where);
      g.fillText(short, ...where);
    }
  };
  if (isPath() && names.length) {
    u = chart(section, {
      says: "coefficients over the weight",
      y: standardized && "coefficient × s.d. of its column",
      weights: true,
      focus: tell,
      over: named,
      data: names.map((n) => atAll((p) => ofName(p, n, sizeOf))),
      series: names.map((_, i) => ({ stroke: colour(i), width: 1.5 })),
    });
    tell(0);
    section.append(hovered);
  }
  section.append(list);
  if (all.length > names.length) section.append(note("The " + names.length + " largest of " + all.length + " paths."));
  const button = (n) => {
    const focus = (on) => () => u && names.includes(n) && u.setSeries(names.indexOf(n) + 1, { focus: on }, true);
    const on = focus(true), off = focus(false);
    return make("button", { type: "button", onfocus: on, onmouseenter: on, onblur: off, onmouseleave: off }, name(n));
  };
  const show = () => {
    const at = coefficients(shown()).slice().sort(bySize((c) => Math.abs(sizeOf(c))));
    const out = (shown().look || {}).coefficients_left_out;
    list.replaceChildren(
      standardized
        ? table(at.map((c) => [button(c.name), digits(c.estimate), digits(sizeOf(c))]), { head: ["", "coefficient", "× s.d."] })
        : table(at.map((c) => [button(c.name), digits(c.estimate)])),
      note(at.length + " are not 0" + (out ? ", and " + out + " smaller ones that are not here" : "") + "."),
    );
    if (u) u.redraw(false);
  };
  return { move: show, blink: show, end: () => u && u.destroy() };
}

function numbersOf(p) {
  const rows = [["weights", weightsText(p)]], s = model.summary || {}, solver = p.solver;
  for (const [c, of] of Object.entries(doc.criteria)) if (value(p, c) !== null) rows.push([of.label, valueText(p, c)]);
  if (s.difference && finite(s.difference[p.index])) {
    const off = spread(s.difference[p.index], s.difference_stderr[p.index]);
    rows.push([label(model.header.criterion) + " − minimum", off]);
  }
  rows.push(["degrees of freedom", spread(p.divergence, p.divergence_stderr)]);
  const others = {
    residual: "residual, squared", sigma2_df: "σ² by the residual", loss: "true loss", intercept: "intercept",
  };
  for (const [k, text] of Object.entries(others)) if (finite(p[k])) rows.push([text, digits(p[k], 6)]);
  const method = solver.method ? " (" + solver.method + ")" : "";
  const end = trusted(p) ? "" : ", NOT CONVERGED";
  rows.push(["solver", solver.name + method + ", " + solver.iterations +
    (solver.iterations === 1 ? " iteration" : " iterations") + end]);
  return rows;
}
function numbersPanel(section) {
  const doubts = make("div"), body = make("div", { class: "scroll" });
  section.append(doubts, body);
  const show = () => {
    let rows = numbersOf(current()), head;
    if (other() && other() !== current()) {
      const held = new Map(numbersOf(other()));
      rows = rows.map(([k, v]) => [k, v, held.get(k) || "–"]);
      head = ["", "this", "held"];
    }
    body.replaceChildren(table(rows, { head }));
    const own = (current().warnings || []).filter((w) => !runWarnings().some((r) => r.text === w.text));
    doubts.replaceChildren(...(own.length ? [warningList(own)] : []));
  };
  return { move: show };
}
function summaryPanel(section) {
  const rows = Object.entries(model.summary).filter(([, v]) => finite(v));
  section.append(make("div", { class: "scroll" }, table(rows.map(([k, v]) => [k.replaceAll("_", " "), digits(v, 6)]))));
}

const runWarnings = () => (model.summary || (isSweep() ? {} : first() || {})).warnings || [];
// warningList lists warnings with what can be done, once for each code and unless the text says it.
function warningList(all) {
  const said = new Set();
  const item = (w) => {
    const { severity = "note", do: advice = "" } = doc.warnings[w.code] || {}, plain = advice.replaceAll("`", "");
    const known = said.has(w.code) || w.text.toLowerCase().includes(plain.toLowerCase());
    said.add(w.code);
    const todo = plain && !known && make("span", { class: "note" }, " To do: " + plain + ".");
    return make("li", {}, make("span", { class: severity }, severity + " "), name(w.text), todo || "");
  };
  return make("ul", { class: "warnings" }, ...all.map(item));
}
function warningsPanel(section) {
  section.append(warningList(runWarnings()));
}

function choicePanel(section) {
  const s = model.summary, rule = label(s.criterion);
  const at = (m) => weightsText(m) + ", " + rule + " " + valueText(m, s.criterion);
  const rows = [["minimum", at(s.minimizer)]];
  if (s.rule && s.chosen && s.chosen.index !== s.minimizer.index) rows.push(["chosen by " + s.rule, at(s.chosen)]);
  if (s.alike) rows.push(["cannot be told from it", s.alike.length + " of " + s.points + " points"]);
  if (finite(s.optimism)) {
    const by = spread(s.optimism, s.optimism_stderr) + ", " + rule + " was searched. This leaves out: ";
    rows.push(["the minimum is too small by", by + s.optimism_leaves_out]);
  }
  for (const a of s.audit || []) {
    const without = "fits without " + a.observations + " observations predict them with the error ";
    const beside = ", " + label(a.criterion) + " says " + digits(a.criterion_says, 4) + ": off by " + digits(a.bars, 2);
    rows.push(["audit" + (a.by ? " of " + a.by : ""), without + spread(a.error, a.error_stderr, 4) + beside + " bars"]);
  }
  if (s.least_loss) rows.push(["least true loss", weightsText(s.least_loss) + ", " + digits(s.least_loss.loss)]);
  section.append(table(rows, { words: true }));
}

function againPanel(section) {
  for (const [what, text] of [["command", doc.command], ["Python", doc.python]]) {
    if (!text) continue;
    const pre = make("pre", {}, name(text)), done = make("span", { role: "status" });
    const copy = async () => {
      getSelection().selectAllChildren(pre);
      try {
        await navigator.clipboard.writeText(text);
      } catch {
        document.execCommand("copy");
      }
      done.textContent = " copied";
    };
    const button = make("button", { type: "button", class: "copy", onclick: copy }, "copy");
    section.append(make("p", {}, what + " ", button, done), pre);
  }
}

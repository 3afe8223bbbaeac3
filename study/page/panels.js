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
  {
    title: "Correlation of the residual",
    when: () => kind() === "sequence" && current().look.correlation,
    make: lagsPanel,
  },
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
const rebuild = () => {
  build();
  move();
};
addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(rebuild, 120);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", rebuild);
addEventListener("beforeprint", () => {
  document.documentElement.dataset.print = "yes";
  rebuild();
});
addEventListener("afterprint", () => {
  delete document.documentElement.dataset.print;
  rebuild();
});

const kind = () => {
  const f = current() && (frame("signal", current()) || frame("fit", current()));
  return f && f.of.kind;
};
const note = (...text) => make("p", { class: "note" }, ...text);

const coefficients = (p) => (p && p.look && p.look.coefficients) || (p && p.coefficients) || [];
function pathNames() {
  const most = new Map();
  if (isSweep())
    for (const p of model.points.values())
      for (const c of coefficients(p)) most.set(c.name, Math.max(most.get(c.name) || 0, Math.abs(c.estimate)));
  return [...most.keys()].sort((a, b) => most.get(b) - most.get(a));
}
const hue = (i) =>
  "hsl(" +
  (Math.round(i * 137.5) % 360) +
  " 65% " +
  (matchMedia("(prefers-color-scheme: dark)").matches ? 65 : 40) +
  "%)";
function coefficientsPanel(section) {
  const all = pathNames(),
    names = all.slice(0, 60);
  const hovered = note("\u00a0"),
    list = make("div", { class: "scroll coefficients", tabindex: "0" });
  let u = null;
  const tell = (i) => {
    hovered.replaceChildren(
      ...(i
        ? [name(names[i - 1]), ": ", digits(estimate(current(), names[i - 1]))]
        : ["Point at a curve, or move to a name, for its path."]),
    );
  };
  if (isSweep() && axes().length === 1 && names.length) {
    u = chart(section, {
      says: "coefficients over the weight",
      log: true,
      x: symbols[axes()[0]],
      focus: tell,
      pick: go,
      data: [weightsAll(), ...names.map((n) => atAll((p) => estimate(p, n)))],
      series: names.map((n, i) => ({ stroke: hue(i), width: 1.5, points: { show: false } })),
      over: (u, g, px, py, b) => here(g, px(current()[axes()[0]]), b),
    });
    tell(0);
    section.append(hovered);
  }
  section.append(list);
  if (all.length > names.length) section.append(note("The " + names.length + " largest of " + all.length + " paths."));
  const show = () => {
    const at = coefficients(shown())
      .slice()
      .sort((a, b) => Math.abs(b.estimate) - Math.abs(a.estimate));
    const focus = (n, on) => u && names.includes(n) && u.setSeries(names.indexOf(n) + 1, { focus: on }, true);
    list.replaceChildren(
      make(
        "table",
        {},
        make(
          "tbody",
          {},
          ...at.map((c) =>
            make(
              "tr",
              {},
              make(
                "td",
                {},
                make(
                  "button",
                  {
                    type: "button",
                    onfocus: () => focus(c.name, true),
                    onmouseenter: () => focus(c.name, true),
                    onblur: () => focus(c.name, false),
                    onmouseleave: () => focus(c.name, false),
                  },
                  name(c.name),
                ),
              ),
              make("td", { class: "number" }, digits(c.estimate)),
            ),
          ),
        ),
      ),
    );
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
    rows.push([
      label(model.header.criterion) + " − minimum",
      spread(s.difference[p.index], s.difference_stderr[p.index]),
    ]);
  }
  rows.push(["degrees of freedom", spread(p.divergence, p.divergence_stderr)]);
  for (const [k, text] of [
    ["residual", "residual, squared"],
    ["sigma2_df", "σ² by the residual"],
    ["loss", "true loss"],
    ["intercept", "intercept"],
  ])
    if (finite(p[k])) rows.push([text, digits(p[k], 6)]);
  rows.push([
    "solver",
    p.solver.name +
      (p.solver.method ? " (" + p.solver.method + ")" : "") +
      ", " +
      p.solver.iterations +
      " iterations" +
      (trusted(p) ? "" : ", NOT CONVERGED"),
  ]);
  return rows;
}
function numbersPanel(section) {
  const body = make("div", { class: "scroll" });
  section.append(body);
  return {
    move: () => {
      const a = numbersOf(current()),
        b = other() && other() !== current() ? new Map(numbersOf(other())) : null;
      body.replaceChildren(
        make(
          "table",
          {},
          make(
            "tbody",
            {},
            b
              ? make(
                  "tr",
                  {},
                  make("th", {}),
                  make("th", { class: "number" }, "this"),
                  make("th", { class: "number" }, "held"),
                )
              : null,
            ...a.map(([k, v]) =>
              make(
                "tr",
                {},
                make("td", {}, k),
                make("td", { class: "number" }, v),
                b ? make("td", { class: "number" }, b.get(k) || "–") : null,
              ),
            ),
          ),
        ),
      );
      const own = (current().warnings || []).filter((w) => !runWarnings().some((r) => r.text === w.text));
      if (own.length) body.append(warningList(own));
    },
  };
}

const runWarnings = () => (model.summary ? model.summary.warnings : isSweep() ? null : about().warnings) || [];
// warningList lists warnings with what can be done.
function warningList(all) {
  return make(
    "ul",
    { class: "warnings" },
    ...all.map((w) => {
      const of = doc.warnings[w.code] || {};
      return make(
        "li",
        {},
        make("span", { class: of.severity || "note" }, (of.severity || "note") + " "),
        name(w.text),
        of.do ? make("span", { class: "note" }, " To do: " + of.do.replaceAll("`", "") + ".") : null,
      );
    }),
  );
}
function warningsPanel(section) {
  section.append(warningList(runWarnings()));
}

function choicePanel(section) {
  const s = model.summary,
    rule = label(s.criterion),
    rows = [];
  const at = (m) =>
    weightsText(m) + ", " + rule + " " + spread(value(m, s.criterion), value(m, s.criterion + "_stderr"));
  rows.push(["minimum", at(s.minimizer)]);
  if (s.rule && s.chosen && s.chosen.index !== s.minimizer.index) rows.push(["chosen by " + s.rule, at(s.chosen)]);
  if (s.alike) rows.push(["cannot be told from it", s.alike.length + " of " + s.points + " points"]);
  if (finite(s.optimism))
    rows.push([
      "the minimum is too small by",
      spread(s.optimism, s.optimism_stderr) + ", " + rule + " was searched. This leaves out: " + s.optimism_leaves_out,
    ]);
  for (const a of s.audit || [])
    rows.push([
      "audit" + (a.by ? " of " + a.by : ""),
      "fits without " +
        a.observations +
        " observations predict them with the error " +
        spread(a.error, a.error_stderr, 4) +
        ", " +
        label(a.criterion) +
        " says " +
        digits(a.criterion_says, 4) +
        ": off by " +
        digits(a.bars, 2) +
        " bars",
    ]);
  if (s.least_loss) rows.push(["least true loss", weightsText(s.least_loss) + ", " + digits(s.least_loss.loss)]);
  section.append(
    make("table", {}, make("tbody", {}, ...rows.map(([k, v]) => make("tr", {}, make("th", {}, k), make("td", {}, v))))),
  );
}

function againPanel(section) {
  for (const [what, text] of [
    ["command", doc.command],
    ["Python", doc.python],
  ]) {
    if (!text) continue;
    const pre = make("pre", {}, name(text)),
      done = make("span", { role: "status" });
    const copy = async () => {
      getSelection().selectAllChildren(pre);
      try {
        await navigator.clipboard.writeText(text);
      } catch {
        document.execCommand("copy");
      }
      done.textContent = " copied";
    };
    section.append(
      make("p", {}, what + " ", make("button", { type: "button", class: "copy", onclick: copy }, "copy"), done),
      pre,
    );
  }
}

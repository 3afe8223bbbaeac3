"""What the program answers: a fit, and a path of fits."""

import html
import json
import math
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from ._errors import InputError
from ._warnings import heard

WEIGHTS = ("lambda", "lambda2", "gamma")


def number(v):
    """A number of the JSON, in which infinity is a text and what is not defined null."""
    return math.nan if v is None else float(v)


def of_one_weight(record, asked, first):
    """The criterion of a fit at one weight: the one that is asked for, or the first one that is known."""
    known = [c for c in (*first, "aic", "bic") if record.get(c) is not None]
    if asked and asked not in known:
        raise InputError(f"criterion is {asked}, which is not known of one weight: expected {', '.join(known)}, or a grid "
                         "of weights", "criterion", asked, ", ".join(known))
    return asked or next((c for c in known if c in first), None)


def _bar(x):
    """A standard error with two significant digits, without an exponent below 1e6."""
    text = f"{x:.2g}"
    return f"{float(text):.0f}" if 100 <= abs(float(text)) < 1e6 else text


class Fit(Mapping):
    """One estimate. A mapping with the keys of `surepipe run --json`: fit["sure"], fit["df"]; and arrays.

    arrays     those of the file that `surepipe run --out fit.npz` writes: "mu_hat", "b", "intercept", ...
    mu_hat     the estimate of the mean of y, with a loss that is not squared the linear predictor
    image      the signal, where the data are measurements of one, else mu_hat
    warnings   what to doubt, a list of {"code", "text"}
    trusted    False where the command would exit with the status 3
    """

    def __init__(self, answer, arrays):
        self.result, self.arrays, self.trusted = answer["result"], arrays, answer["status"] == 0
        self.mu_hat = arrays.get("mu_hat")
        self.image = arrays.get("image", arrays.get("signal", self.mu_hat))
        self.warnings = self.result.get("warnings") or []

    def __getitem__(self, key):
        return self.result[key]

    def __iter__(self):
        return iter(self.result)

    def __len__(self):
        return len(self.result)

    @property
    def b(self):
        """The solution, of a regression in the units of the columns."""
        return self.arrays.get("b")

    def coefficients(self):
        """Those of a regression by name, with debiased estimates and their errors, as a pandas data frame."""
        import pandas as pd
        found = self.result.get("coefficients")
        if found is None:
            raise ValueError("no coefficients were asked for: coefficients=True")
        return pd.DataFrame(found).set_index("name").rename_axis(None)

    def _rows(self):
        """What a table shows of it."""
        r, rows = self.result, []
        for key in WEIGHTS + ("df", "sure", "gcv", "alo", "cv", "aic", "bic", "sigma2", "loss"):
            if r.get(key) is not None:
                bar = r.get("divergence_stderr" if key == "df" else key + "_stderr")
                if key == "df" and not (bar or 0) > 1e-9 * r["df"]:
                    bar = None  # known exactly
                rows.append((key, f"{number(r[key]):.6g}" + ("" if bar is None else f" ± {_bar(number(bar))}")))
        return rows

    def __repr__(self):
        return f"<surepipe fit, {self.result['problem']}: " + ", ".join(f"{k} {v}" for k, v in self._rows()) + ">"

    def _repr_html_(self):
        return f"<div><b>{html.escape(self.result['problem'])}</b>{_table(self._rows())}{_list(self.warnings)}</div>"


def _flat(record):
    """A record of the program: criteria that need fits of their own, as cv, stand in a dictionary there."""
    return {**(record.get("criteria") or {}), **record}


class Path:
    """A sweep: its points, the choice among them, and the fit there.

    points     the lines of `surepipe sweep --json`, one dict a point, in the order in which they were computed
    summary    its last line: the minimizer, the chosen point, which points cannot be told from it, audits
    fit        the `Fit` at the chosen point, with its arrays
    """

    def __init__(self, answer, fit, coefficients=None):
        self.summary, self.fit, self._lines, self._coefficients = answer["summary"], fit, answer["points"], coefficients
        self.criterion, self.chosen = self.summary["criterion"], _flat(self.summary["chosen"])
        self.warnings = list(fit.warnings)
        for w in self.summary.get("warnings") or []:
            if w not in self.warnings:
                self.warnings.append(w)

    def __getitem__(self, key):
        """A number of the chosen fit, as of fit[key]."""
        return self.fit[key]

    @cached_property
    def points(self):
        lines = json.loads(self._lines) if isinstance(self._lines, bytes) else self._lines
        return [_flat(p) for p in lines]

    @cached_property
    def axes(self):
        return [k for k in WEIGHTS if len({str(p.get(k)) for p in self.points}) > 1] or ["lambda"]

    def column(self, key):
        """A number of every point, NaN where it is not defined."""
        return np.array([number(p.get(key)) for p in self.points])

    @property
    def lambda_(self):
        """The chosen weight, as of the regressions; others are path.chosen["lambda2"] and path.chosen["gamma"]."""
        return number(self.chosen["lambda"])

    @property
    def value(self):
        """The criterion at the chosen point, and stderr its standard error."""
        return number(self.chosen.get(self.criterion))

    @property
    def stderr(self):
        return number(self.chosen.get(self.criterion + "_stderr"))

    @property
    def optimism(self):
        """By how much the least value is too small on average because it was looked for, NaN where that is not known;
        summary["optimism_stderr"] is its error, and summary["optimism_leaves_out"] says what it does not count."""
        return number(self.summary.get("optimism"))

    def _optimism(self):
        if not math.isfinite(self.optimism):
            return []
        return [("too small by", f"{self.optimism:.3g} ± {_bar(number(self.summary['optimism_stderr']))}",
                 "the weight is the one where it is least; " + self.summary["optimism_leaves_out"])]

    def frame(self):
        """The points as a pandas data frame, in the order of the weights."""
        import pandas as pd
        frame = pd.DataFrame({k: [p.get(k) for p in self.points] for k in self._keys()})
        for key in frame.columns:
            if key in WEIGHTS:
                frame[key] = frame[key].astype(float)
        for key in ("difference", "difference_stderr"):
            if self.summary.get(key):
                frame[key] = [number(v) for v in self.summary[key]]
        alike = self.summary.get("alike") or []
        frame["alike"] = [p["index"] in alike for p in self.points]
        frame["chosen"] = [p["index"] == self.chosen["index"] for p in self.points]
        return frame.sort_values(self.axes, ignore_index=True)

    def coefficients(self):
        """Those of a regression at every point, as a pandas data frame: a row for each, by its weights and from the
        greatest, in the units of the columns."""
        import pandas as pd
        if self._coefficients is None:
            raise ValueError('the coefficients of all points were not asked for: coefficients="path"')
        names = list(self.fit.coefficients().index)
        if not names[0].endswith("(intercept)"):
            names = ["(intercept)"] + names
        index = pd.MultiIndex.from_arrays([self.column(a) for a in self.axes], names=self.axes)
        frame = pd.DataFrame(self._coefficients, index=index if len(self.axes) > 1 else index.get_level_values(0),
                             columns=names)
        return frame.dropna(axis=1, how="all").sort_index(ascending=False)

    def _keys(self):
        plain = {k for p in self.points for k, v in p.items() if isinstance(v, (int, float)) or k in WEIGHTS}
        first = [k for k in WEIGHTS + ("df", self.criterion, self.criterion + "_stderr") if k in plain]
        return first + sorted(plain - set(first) - {"index", "d", "p", "rank_margin", "space_margin"})

    def _curves(self):
        """For each value of a second weight: its label, and weights, values and errors in order."""
        x, y, e = self.column(self.axes[0]), self.column(self.criterion), self.column(self.criterion + "_stderr")
        other = self.column(self.axes[1]) if len(self.axes) > 1 else np.zeros(len(x))
        for v in np.unique(other):
            at = np.flatnonzero((other == v) & np.isfinite(x) & np.isfinite(y))
            if len(at):
                at = at[np.argsort(x[at])]
                yield "" if len(self.axes) == 1 else f"{self.axes[1]} {v:.3g}", x[at], y[at], e[at]

    def plot(self, ax=None):
        """Draws the criterion over the weight with matplotlib, with its standard error and the choice."""
        if ax is None:
            import matplotlib.pyplot as plt
            ax = plt.subplots()[1]
        curves = list(self._curves())
        for label, x, y, e in curves:
            ax.plot(x, y, ".-", label=label or None)
            if len(curves) == 1 and np.isfinite(e).all():
                ax.fill_between(x, y - e, y + e, alpha=0.2, lw=0)
        ax.axvline(number(self.chosen[self.axes[0]]), ls="--", lw=1, color="k")
        ax.plot(number(self.chosen[self.axes[0]]), self.value, "ko")
        ax.set(xlabel=self.axes[0], ylabel=self.criterion)
        if all((x > 0).all() for _, x, _, _ in curves):
            ax.set_xscale("log")
        if len(curves) > 1:
            ax.legend(fontsize="small")
        return ax

    def __repr__(self):
        rows = dict(self.fit._rows())
        weights = ", ".join(f"{k} {rows[k]}" for k in WEIGHTS if k in rows)
        return (f"<surepipe path, {self.fit['problem']}: {len(self.points)} points; {weights}: {self.criterion} "
                f"{self.value:.6g}" + (f" ± {_bar(self.stderr)}" if math.isfinite(self.stderr) else "") +
                "".join(f", {key} {by}" for key, by, _ in self._optimism()) + ">")

    def _repr_html_(self):
        title = html.escape(f"{self.fit['problem']}: {self.criterion} at {len(self.points)} points")
        rows = self.fit._rows() + [(key, f"{by}: {why}") for key, by, why in self._optimism()]
        return f"<div><b>{title}</b>{_svg(self)}{_table(rows)}{_list(self.warnings)}</div>"


def _table(rows):
    cells = "".join(f"<tr><th style='text-align:left'>{html.escape(k)}</th><td style='text-align:left'>"
                    f"{html.escape(v)}</td></tr>" for k, v in rows)
    return f"<table>{cells}</table>"


def _list(found):
    items = "".join(f"<li><code>{html.escape(w['code'])}</code> {html.escape(w['text'])}</li>" for w in heard(found))
    return f"<ul>{items}</ul>" if items else ""


def _svg(path, width=480, height=220):
    """The curves as SVG, which needs no library and follows the page's colour of text."""
    curves = list(path._curves())
    if not curves:
        return ""
    xs, ys = (np.concatenate([c[i] for c in curves]) for i in (1, 2))
    log = (xs > 0).all() and xs.max() > 3 * xs.min()
    to = np.log10 if log else np.asarray
    low, high = np.min(ys), np.quantile(ys, 0.9)  # the worst points would hide the minimum
    high += 0.05 * (high - low) or 1.0
    low -= 0.05 * (high - low)
    left, top, right, bottom = 60, 8, width - 8, height - 32
    span = np.ptp(to(xs)) or 1.0

    def px(x):
        return left + (right - left) * (to(np.asarray(x, float)) - to(xs).min()) / span

    def py(y):
        return bottom - (bottom - top) * (np.clip(y, low, high) - low) / (high - low)

    def line(x, y, **style):
        text = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y))
        return f"<polyline points='{text}' " + " ".join(f"{k.replace('_', '-')}='{v}'" for k, v in style.items()) + "/>"

    parts = []
    for i, (_, x, y, e) in enumerate(curves):
        if len(curves) == 1 and np.isfinite(e).all():
            band = np.concatenate([px(x), px(x)[::-1]]), np.concatenate([py(y + e), py(y - e)[::-1]])
            parts.append(line(*band, fill="currentColor", fill_opacity=0.12, stroke="none"))
        color = f"hsl({210 + 300 * i // len(curves)},70%,50%)"
        parts.append(line(px(x), py(y), fill="none", stroke=color, stroke_width=1.5))
        parts += [f"<circle cx='{a:.1f}' cy='{b:.1f}' r='2' fill='{color}'/>" for a, b in zip(px(x), py(y))]
    at = number(path.chosen[path.axes[0]])
    if np.isfinite(at) and np.isfinite(path.value):
        parts.append(f"<circle cx='{px(at):.1f}' cy='{py(path.value):.1f}' r='5' fill='none' stroke='currentColor' "
                     "stroke-width='2'><title>chosen</title></circle>")
    text = "<text x='{:.0f}' y='{:.0f}' text-anchor='{}'>{}</text>".format
    parts += [text(left, height - 16, "start", f"{xs.min():.3g}"), text(right, height - 16, "end", f"{xs.max():.3g}"),
              text((left + right) / 2, height - 4, "middle", path.axes[0] + (" (log)" if log else "")),
              text(left - 4, bottom, "end", f"{low:.4g}"), text(left - 4, top + 10, "end", f"{high:.4g}"),
              f"<rect x='{left}' y='{top}' width='{right - left}' height='{bottom - top}' fill='none' "
              "stroke='currentColor' stroke-opacity='0.3'/>"]
    label = html.escape(f"{path.criterion} over {path.axes[0]}")
    return (f"<svg role='img' aria-label='{label}' width='{width}' height='{height}' "
            f"style='display:block;font:11px sans-serif' fill='currentColor'>{''.join(parts)}</svg>")

#!/usr/bin/python3
"""Real data of Debian's packages, a part of which is held out: what each criterion prints at the weight
that it chooses, beside the error on what was held out.

    go build ./cmd/surepipe
    /usr/bin/python3 testdata/realdata/heldout.py ./surepipe --splits 2
    /usr/bin/python3 testdata/realdata/heldout.py ./surepipe --lines lines.jsonl --write docs/trust.md
    /usr/bin/python3 testdata/realdata/heldout.py ./surepipe --only matrices --write docs/completion.md

Tables lose 30% of their rows, matrices 30% of their entries, series 20% of their values, one at a time
or in runs, grouped tables 30% of their groups. With z = (printed - held out) / bar, where the bar is that
of the criterion and that of the held-out mean together, a number is wrong beyond 4 bars, and right up to
3, unless the splits agree on a factor beyond 3/4 or 4/3, or beyond three printed bars (its mean logarithm, by two of
its bars), or the held-out mean is not known to a third, so that its own three bars reach 0 and every number is within
them. A number is marked if its result has a warning about the criterion, or exit status 3. The tables are written between markers with the names of --write's document; --lines keeps every number, and a
run that was stopped goes on from them. What the data are is in sources.py.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile

import numpy as np
import pandas as pd
from scipy import stats

import sources

# Warnings that say that the number at hand is not to be believed as it stands. (That of a sweep about
# no-leave-one-out is about points that it passed over.)
MARKS = {"gcv-leverages", "few-observations", "criterion-disagrees", "correlated", "rows-in-groups", "interpolates",
         "not-converged", "not-determined"}


class Program:
    """The program, its working folder and the processor seconds of its commands."""

    def __init__(self, path, folder):
        self.path, self.folder = os.path.abspath(path), folder

    def at(self, name):
        return os.path.join(self.folder, name)

    def __call__(self, *args, status=(0, 3)):
        done = subprocess.run([self.path, *map(str, args)], capture_output=True, text=True)
        if done.returncode not in status:
            raise RuntimeError(f"surepipe {' '.join(map(str, args))}: {done.stderr.strip().splitlines()[-1]}")
        return done.stdout, done.returncode

    def sweep(self, *args, criterion):
        """The printed value, its bar, the marks, and the last line of a sweep."""
        out, status = self("sweep", *args, "--refine", 0, "--criterion", criterion, "--json", "--out", self.at("fit.npz"))
        last = json.loads(out.splitlines()[-1])
        at = last["chosen"] | (last["chosen"].get("criteria") or {})
        marks = {w["code"] for w in last.get("warnings") or []} & MARKS
        if status == 3 and not marks:
            marks = {"status-3"}
        return at.get(criterion), at.get(criterion + "_stderr"), sorted(marks), last


def loss(family, y, mean):
    """The error of each prediction: squared, or minus the logarithm of the likelihood without terms of y alone."""
    if family == "poisson":
        mean = np.clip(mean, 1e-300, None)
        return mean - y * np.log(mean)
    if family == "logistic":
        mean = np.clip(mean, 1e-15, 1 - 1e-15)
        return -y * np.log(mean) - (1 - y) * np.log(1 - mean)
    return (y - mean) ** 2


def predicted(program, frame, response):
    """The predictions of the last fit for the rows of a table."""
    frame.drop(columns=response).to_csv(program.at("test.csv"), index=False)
    program("predict", "--fit", program.at("fit.npz"), "--data", program.at("test.csv"), "--out", program.at("p.csv"))
    return pd.read_csv(program.at("p.csv")).iloc[:, -1].to_numpy(float)


def table(program, data, criterion, rng, groups=None):
    """A table, of which rows or, with groups, the rows of some groups are held out."""
    frame, response, family = data["frame"], data["response"], data["family"]
    if groups is None:
        out = rng.permutation(len(frame)) < 0.3 * len(frame)
        unit = np.arange(len(frame))
    else:
        names, unit = np.unique(frame[groups], return_inverse=True)
        out = (rng.permutation(len(names)) < 0.3 * len(names))[unit]
    frame[~out].to_csv(program.at("train.csv"), index=False)
    args = ["--problem", "lasso", "--data", program.at("train.csv"), "--response", response, "--standardize",
            "--intercept", "--lambda", "0.001max:max:25"]
    if family != "squared":
        args += ["--loss", family]
    if data.get("by_groups"):
        args += ["--groups", groups]
    value, bar, marks, last = program.sweep(*args, criterion=criterion)
    test = frame[out]
    # A category that training has not seen has no prediction.
    for c in test.columns[[not pd.api.types.is_numeric_dtype(t) for t in test.dtypes]]:
        if c != groups or not data.get("by_groups"):
            test = test[test[c].isin(frame[c][~out])]
    y = test[response].to_numpy(float)
    error = loss(family, y, predicted(program, test, response))
    return value, bar, marks, *mean(error, unit[test.index])


def mean(error, unit):
    """The mean, and its standard error over units; nothing of one unit, which has none."""
    used = np.unique(unit).size
    if used < 2:
        return None, None
    total = np.bincount(unit, error - error.mean())
    # Few units tell their spread badly: as far as three normal bars go Student's t.
    wide = stats.t.ppf(stats.norm.cdf(3), max(used - 1, 1)) / 3
    return error.mean(), wide * np.sqrt(np.sum(total ** 2) * used / max(used - 1, 1)) / len(error)


def matrix(program, data, criterion, rng):
    x = data["x"]
    seen = rng.random(x.shape) < data.get("seen", 0.7)
    np.save(program.at("y.npy"), np.where(seen, x, np.nan))
    value, bar, marks, last = program.sweep("--problem", "matrix-completion", "--y", program.at("y.npy"), "--effects",
                                            "rows,cols", "--lambda", data.get("grid", "0.01max:max:20"), criterion=criterion)
    # A row or column without an entry has no effect to predict by.
    known = seen.any(1)[:, None] & seen.any(0)[None, :]
    error = (completed(program.at("fit.npz"), x.shape) - x)[~seen & known] ** 2
    return value, bar, marks, *mean(error, np.arange(len(error)))


def completed(path, shape):
    """The matrix of a fit of effects and a low rank."""
    fit = np.load(path)
    rows, cols = (fit[k] if k in fit else np.arange(n) for k, n in zip(("rows", "cols"), shape))
    full = np.full(shape, float(fit["effects_mean"]))
    if "b" in fit:
        full += fit["b"]
    else:
        full[np.ix_(rows, cols)] += fit["U"] * fit["S"] @ fit["V"].T
    for name, occur, axis in (("effects_rows", rows, 1), ("effects_cols", cols, 0)):
        effects = np.zeros(shape[1 - axis])
        effects[occur if len(fit[name]) < len(effects) else slice(None)] = fit[name]
        full += np.expand_dims(effects, axis)
    return full


def series(program, data, criterion, rng, run=1):
    """A sequence under Whittaker's smoother, of which values, or runs of them, are held out."""
    y = data["y"]
    unit = (np.arange(len(y)) + rng.integers(run)) // run
    out = rng.permutation(unit.max() + 1) < 0.2 * (unit.max() + 1)
    out = out[unit] & (np.arange(len(y)) > 0) & (np.arange(len(y)) < len(y) - 1)
    pd.DataFrame({"t": np.arange(len(y)), "y": np.where(out, np.nan, y)}).to_csv(program.at("y.csv"), index=False)
    value, bar, marks, last = program.sweep("--problem", "whittaker", "--data", program.at("y.csv"), "--response", "y",
                                            "--index", "t", "--missing", "drop", "--lambda", "0.01:1e7:25",
                                            criterion=criterion)
    b = np.load(program.at("fit.npz"))["b"].ravel()
    return value, bar, marks, *mean((b - y)[out] ** 2, unit[out])


# A kind of data: what is held out, by which function, and its criteria.
KINDS = {
    "tables": ("rows", table, "gcv,alo,cv"),
    "counts and classes": ("rows", table, "alo,cv"),
    "matrices": ("entries", matrix, "gcv,alo,cv"),
    "series": ("single values", series, "gcv,alo,cv"),
    "runs of series": ("runs of 8 values", lambda *a: series(*a, run=8), "gcv,alo,cv"),
    "grouped": ("groups", lambda p, d, c, r: table(p, d, c, r, d["groups"]), "gcv,alo,cv"),
    "grouped with --groups": ("groups", lambda p, d, c, r: table(p, {**d, "by_groups": True}, c, r, d["groups"]), "lgo,cv"),
}


def lines(program, done):
    """A line for each data set, split and criterion: those that are done, and the others as they come."""
    for kind, (_, run, criteria) in KINDS.items():
        for name, data in sources.of(kind, program.folder):
            if options.only and not {kind, name} & set(options.only.split(",")):
                continue
            for split in range(options.splits):
                for criterion in (options.criteria or criteria).split(","):
                    key = (kind, name, split, criterion)
                    if key in done:
                        yield done[key]
                        continue
                    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
                    try:
                        value, bar, marks, held, held_bar = run(program, data, criterion, np.random.default_rng(split))
                    except RuntimeError as failure:
                        print(kind, name, split, failure, file=sys.stderr, flush=True)
                        value = bar = held = held_bar = None
                        marks = ["error"]
                    line = dict(zip(("kind", "data", "split", "criterion"), key), value=value, bar=bar, marks=marks,
                                held_out=held, held_out_bar=held_bar,
                                family=data.get("family", "squared"),
                                seconds=round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, 2))
                    if options.lines:
                        with open(options.lines, "a") as file:
                            file.write(json.dumps(line) + "\n")
                    yield line


def judged(all_lines):
    """The numbers in bars, where there are any."""
    f = pd.DataFrame([l for l in all_lines if l["value"] is not None and l["held_out_bar"]])
    f["z"] = (f.value - f.held_out) / np.hypot(f.bar.astype(float), f.held_out_bar)
    # That noise or signal is correlated is said of runs, not of single values.
    f = f.sort_values("kind", key=lambda k: k.map(list(KINDS).index), kind="stable").reset_index(drop=True)
    f["marked"] = [bool(set(m) & (MARKS | {"status-3"}) - ({"correlated"} if k == "series" else set()))
                   for m, k in zip(f.marks, f.kind)]
    # A held-out mean whose three bars reach 0 cannot tell that a number is right.
    f["told"] = (f.family != "squared") | (3 * f.held_out_bar < f.held_out)
    # A factor that all splits agree about is wrong also where single splits cannot tell.
    squared = f[f.family == "squared"]
    keys = [squared.kind, squared.data, squared.criterion]
    logs = np.log(squared.value / squared.held_out).groupby(keys)
    mean, bar = logs.transform("mean").abs(), logs.transform("std") / np.sqrt(logs.transform("size"))
    printed = (squared.bar / squared.value).astype(float).groupby(keys).transform("mean")
    f["off"] = ((mean > np.minimum(np.log(4 / 3), 3 * printed)) & (mean > 2 * bar)).reindex(f.index, fill_value=False)
    return f


def markdown(heading, rows):
    return "\n".join("| " + " | ".join(map(str, r)) + " |" for r in [heading, ["---"] * len(heading), *rows]) + "\n"


def calibration(f):
    """A row for each kind and criterion."""
    rows = []
    for (kind, criterion), g in f.groupby(["kind", "criterion"], sort=False):
        z = g.z.abs()
        right, wrong = g[(z <= 3) & ~g.off & g.told], g[z > 4]
        rows.append([f"{kind}: {KINDS[kind][0]}", criterion, f"{g.data.nunique()}, {len(g)}",
                     f"{np.exp(np.median(np.log(g.value / g.held_out))):.2f}" if (g.value > 0).all() and
                     (g.held_out > 0).all() else "",
                     f"{(z <= 2).mean():.0%}", f"{(z <= 3).mean():.0%}",
                     f"{len(wrong)}", f"{(~wrong.marked).sum()}", f"{right.marked.sum()} of {len(right)}"])
    return markdown(["data: held out", "criterion", "sets, numbers", "printed / held out", "within 2 bars", "within 3",
                     "beyond 4", "of them unmarked", "right and marked"], rows)


def unmarked(f):
    """A row for each data set and criterion with numbers beyond four bars and without a mark."""
    rows = []
    for (kind, data, criterion), g in f.groupby(["kind", "data", "criterion"], sort=False):
        w = g[(g.z.abs() > 4) & ~g.marked]
        if len(w):
            rows.append([kind, data, criterion, f"{len(w)} of {len(g)}", f"{g.value.mean():.3g} ± {g.bar.mean():.2g}",
                         f"{g.held_out.mean():.3g} ± {g.held_out_bar.mean():.2g}"])
    return markdown(["kind", "data", "criterion", "splits", "printed", "held out"], rows)


def matrices(f):
    """A row for each matrix and criterion."""
    rows = []
    for (name, criterion), g in f[f.kind == "matrices"].groupby(["data", "criterion"], sort=False):
        rows.append([name, criterion, f"{g.value.mean():.3g} ± {g.bar.mean():.2g}", f"{g.held_out.mean():.3g}",
                     f"{(g.z.abs() > 3).sum()} of {len(g)}", g.marked.sum()])
    return markdown(["matrix", "criterion", "printed", "held out", "beyond 3 bars", "marked"], rows)


def main():
    done = {}
    if options.lines and os.path.exists(options.lines):
        for line in open(options.lines):
            line = json.loads(line)
            done[line["kind"], line["data"], line["split"], line["criterion"]] = line
    if options.judge:
        f = judged(done.values())
    else:
        with tempfile.TemporaryDirectory() as folder:
            f = judged(lines(Program(options.program, folder), done))
    texts = {"calibration": calibration(f), "unmarked": unmarked(f), "matrices": matrices(f)}
    text = open(options.write).read() if options.write else ""
    for name, part in texts.items():
        begin, end = f"<!-- heldout.py {name} -->\n", "<!-- end -->\n"
        if not options.write:
            print(part)
        elif begin in text:
            head, rest = text.split(begin)
            text = head + begin + part + end + rest.split(end, 1)[1]
    if options.write:
        open(options.write, "w").write(text)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("program")
parser.add_argument("--splits", type=int, default=10)
parser.add_argument("--criteria", help="in place of those of each kind")
parser.add_argument("--only", help="some of the kinds and the data, with commas between")
parser.add_argument("--lines", help="a file for every number, a JSON object a line; those in it are not computed again")
parser.add_argument("--judge", action="store_true", help="the numbers in --lines as they are, without fits")
parser.add_argument("--write", help="a document whose tables are replaced")
options = parser.parse_args()
main()

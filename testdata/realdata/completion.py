#!/usr/bin/python3
"""Real matrices of Debian's packages, some of whose entries are held out: what each criterion prints at
the weight that it chooses, beside the error on what was held out.

    go build ./cmd/surepipe
    /usr/bin/python3 testdata/realdata/completion.py ./surepipe
    /usr/bin/python3 testdata/realdata/completion.py ./surepipe --write docs/completion.md

A row of the table is a matrix and a criterion, over --splits random splits: the mean of the value that
was printed and of its bar, the mean squared error at the held-out entries, the number of splits in which
the two differ by more than three bars (the printed one and that of the held-out mean together), and the
number that carried a mark: a warning about the criterion. --points FILE writes every point of every sweep
with its degrees of freedom and criteria. Columns of tables are scaled to variance 1; effects of rows and
columns are fitted. Another matrix is one more line of MATRICES.
"""
import argparse
import csv
import io
import json
import os
import resource
import subprocess
import sys
import tempfile

PACKAGES = "r-base-core r-cran-mass python3-sklearn python3-pandas"
missing = [p for p in PACKAGES.split() if subprocess.run(["dpkg-query", "-W", p], capture_output=True).returncode]
if missing:
    sys.exit("missing packages: apt-get install -y --no-install-recommends " + " ".join(missing))

import numpy as np
import sklearn.datasets

MARKS = ("gcv-leverages", "few-observations", "no-leave-one-out", "unsure-points", "criterion-disagrees")


def r(expression):
    """A matrix of R."""
    text = subprocess.run(["Rscript", "-e", f"write.csv(as.matrix({expression}), row.names = FALSE)"],
                          capture_output=True, text=True, check=True).stdout
    return np.array([[float(v) for v in row] for row in list(csv.reader(io.StringIO(text)))[1:]])


def scaled(x):
    return (x - x.mean(0)) / x.std(0)


# The matrix, and the share of its entries that is seen.
MATRICES = {
    "iris": (lambda: scaled(sklearn.datasets.load_iris().data), 0.7),
    "wine": (lambda: scaled(sklearn.datasets.load_wine().data), 0.7),
    "breast cancer": (lambda: scaled(sklearn.datasets.load_breast_cancer().data[:300]), 0.7),
    "crabs": (lambda: scaled(r("MASS::crabs[, 4:8]")), 0.7),
    "EuStockMarkets": (lambda: scaled(r("EuStockMarkets"))[::4], 0.7),
    "volcano": (lambda: r("volcano"), 0.7),
    "digits": (lambda: sklearn.datasets.load_digits().data, 0.5),
}


def sweep(matrix, criterion, folder, options):
    """The summary and the points of a sweep, the prediction of what is not seen, and processor seconds."""
    np.save(f"{folder}/y.npy", matrix)
    command = [options.program, "sweep", "--problem", "matrix-completion", "--y", f"{folder}/y.npy", "--effects",
               "rows,cols", "--lambda", options.grid, "--refine", "0", "--json", "--out", f"{folder}/fit.npz"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run(command + (["--criterion", criterion] if criterion else []), capture_output=True, text=True)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    if done.returncode not in (0, 3):
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    fit = np.load(f"{folder}/fit.npz")
    rows, cols = (fit[k] if k in fit else np.arange(n) for k, n in zip(("rows", "cols"), matrix.shape))
    full = np.full(matrix.shape, float(fit["effects_mean"]))
    if "b" in fit:
        full += fit["b"]
    else:
        full[np.ix_(rows, cols)] += fit["U"] * fit["S"] @ fit["V"].T
    for name, occur, axis in (("effects_rows", rows, 1), ("effects_cols", cols, 0)):
        effects = np.zeros(matrix.shape[1 - axis])
        effects[occur if len(fit[name]) < len(effects) else slice(None)] = fit[name]
        full += np.expand_dims(effects, axis)
    return lines, full, seconds


def main():
    table = [["matrix", "seen", "criterion", "printed", "held out", "beyond 3 bars", "marked", "CPU s"]]
    points = []
    for name, (load, share) in MATRICES.items():
        if options.only and name not in options.only.split(","):
            continue
        x = load()
        for criterion in options.criteria.split(","):
            rows = []
            for split in range(options.splits):
                seen = np.random.default_rng(split).random(x.shape) < share
                # A row or column without an entry has no effect to predict by.
                known = seen.any(1)[:, None] & seen.any(0)[None, :]
                lines, full, seconds = sweep(np.where(seen, x, np.nan), criterion, options.folder, options)
                error = (full - x)[~seen & known] ** 2
                summary = next(line for line in lines if "summary" in line)
                best = summary["minimizer"]
                value, bar = best[criterion], best[criterion + "_stderr"]
                bars = abs(value - error.mean()) / np.hypot(bar, error.std() / len(error) ** 0.5)
                codes = {w["code"] for w in summary.get("warnings") or []}
                rows.append((value, bar, error.mean(), bars > 3, bool(codes & set(MARKS)), seconds))
                points += [{"matrix": name, "split": split, "by": criterion, **p} for p in lines if "divergence" in p]
            mean = np.mean(np.array(rows, dtype=float), 0)
            table.append([name, f"{share:.0%} of {x.shape[0]} x {x.shape[1]}", criterion,
                          f"{mean[0]:.3g} ± {mean[1]:.2g}", f"{mean[2]:.3g}",
                          f"{sum(r[3] for r in rows)} of {len(rows)}", f"{sum(r[4] for r in rows)}", f"{mean[5]:.2g}"])
            print("  ".join(table[-1]), file=sys.stderr)
    if options.points:
        with open(options.points, "w") as out:
            out.writelines(json.dumps(p) + "\n" for p in points)
    text = "\n".join(["| " + " | ".join(row) + " |" for row in table[:1]] + ["| " + "--- | " * len(table[0])] +
                     ["| " + " | ".join(row) + " |" for row in table[1:]]).replace("| \n", "|\n")
    if not options.write:
        print(text)
        return
    begin, end = "<!-- completion.py -->\n", "<!-- end -->\n"
    document = open(options.write).read()
    head, rest = document.split(begin)
    open(options.write, "w").write(head + begin + text + "\n" + end + rest.split(end)[1])


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("program")
parser.add_argument("--splits", type=int, default=10)
parser.add_argument("--criteria", default="gcv,alo")
parser.add_argument("--grid", default="0.01max:max:20")
parser.add_argument("--only", help="some of the matrices, with commas")
parser.add_argument("--points", help="a file for every point, a JSON object a line")
parser.add_argument("--write", help="a document whose table is replaced")
options = parser.parse_args()
options.program = os.path.abspath(options.program)
with tempfile.TemporaryDirectory() as options.folder:
    main()

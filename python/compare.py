#!/usr/bin/python3
"""Twelve tables of R's and scikit-learn's packages: surepipe's estimators beside LassoCV, in time and held-out error.

    SUREPIPE_BINARY=./surepipe PYTHONPATH=python /usr/bin/python3 python/compare.py [--write docs/python.md]

Each table is split 20 times, two thirds to fit. Times are by the clock, the least of three fits to the same rows. A
pause goes before each: threads of numpy's BLAS that wait for more work take a processor for a while.
Needs Debian's python3-sklearn, python3-pandas, r-base-core and r-cran-mass.
"""

import argparse
import subprocess
import time
import warnings

import numpy as np
import pandas as pd
import sklearn.datasets
from sklearn.linear_model import LassoCV, LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import surepipe

SPLITS = 20
PAUSE = 0.2  # seconds


def of_r(name, response, drop=()):
    """A table of R, with columns of 0 and 1 for categories, without rows with missing values."""
    text = subprocess.run(["Rscript", "-e", f"write.csv({name}, row.names = FALSE)"], check=True, capture_output=True,
                          text=True).stdout
    import io
    frame = pd.read_csv(io.StringIO(text)).drop(columns=list(drop)).dropna()
    return pd.get_dummies(frame.drop(columns=response)).astype(float), frame[response].astype(float)


def diabetes(powers):
    X, y = sklearn.datasets.load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    if powers:
        X = pd.DataFrame(PolynomialFeatures(2, include_bias=False).fit_transform(X))
    return X, y


def digits():
    X, y = sklearn.datasets.load_digits(return_X_y=True)
    return pd.DataFrame(X[:, X.std(axis=0) > 0.1]), pd.Series(y.astype(float))


def cancer():
    return sklearn.datasets.load_breast_cancer(return_X_y=True, as_frame=True)


TABLES = [
    ("Boston, house values (MASS)", "gaussian", lambda: of_r("MASS::Boston", "medv")),
    ("diabetes, progression (scikit-learn)", "gaussian", lambda: diabetes(False)),
    ("diabetes, with squares and products", "gaussian", lambda: diabetes(True)),
    ("UScrime, crime rates (MASS)", "gaussian", lambda: of_r("MASS::UScrime", "y")),
    ("airquality, ozone (R)", "gaussian", lambda: of_r("airquality", "Ozone")),
    ("swiss, fertility (R)", "gaussian", lambda: of_r("swiss", "Fertility")),
    ("Cars93, price (MASS)", "gaussian",
     lambda: of_r("MASS::Cars93", "Price", ["Min.Price", "Max.Price", "Model", "Make", "Manufacturer"])),
    ("birthwt, weights (MASS)", "gaussian", lambda: of_r("MASS::birthwt", "bwt", ["low"])),
    ("cpus, performance (MASS)", "gaussian", lambda: of_r("MASS::cpus", "perf", ["name", "estperf"])),
    ("digits, the digit from pixels (scikit-learn)", "gaussian", digits),
    ("breast cancer, malignant or not (scikit-learn)", "binomial", cancer),
    ("birthwt, low or not (MASS)", "binomial", lambda: of_r("MASS::birthwt", "low", ["bwt"])),
]


def estimators(kind):
    """Ours, and scikit-learn's by cross-validation with its own defaults."""
    scaled = StandardScaler()
    if kind == "gaussian":
        return surepipe.Lasso(), make_pipeline(scaled, LassoCV(max_iter=100000))
    return surepipe.Logistic(), make_pipeline(scaled, LogisticRegressionCV(
        penalty="l1", solver="liblinear", scoring="neg_log_loss"))


def loss(kind, e, X, y):
    """The mean squared error, or minus the mean log likelihood without terms of y alone."""
    if kind == "binomial":
        p = np.clip(e.predict_proba(X)[:, 1], 1e-12, 1 - 1e-12)
        return -np.mean(y * np.log(p) + (1 - y) * np.log1p(-p))
    return np.mean((y - e.predict(X)) ** 2)


def seconds(e, X, y):
    """Seconds of a fit by the clock, the least of three."""
    def once():
        begin = time.perf_counter()
        e.fit(X, y)
        return time.perf_counter() - begin
    return min(once() for _ in range(3))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--write", help="replace the table in this document, between its markers")
    options = p.parse_args()
    warnings.simplefilter("ignore")
    lines = ["| table | d x p | held-out loss | scikit-learn's | ratio | ms | scikit-learn's | times faster |",
             "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for title, kind, load in TABLES:
        X, y = load()
        errors, took = [[], []], [0.0, 0.0]
        for e in estimators(kind):
            e.fit(X, y)  # what is loaded once is not timed
        for k in range(1, SPLITS + 1):
            order = np.random.default_rng(k).permutation(len(y))
            train, test = order[:len(y) * 2 // 3], order[len(y) * 2 // 3:]
            for i, e in enumerate(estimators(kind)):
                rows = X.iloc[train], y.iloc[train]
                time.sleep(PAUSE)
                took[i] += seconds(e, *rows)
                errors[i].append(loss(kind, e, X.iloc[test], y.iloc[test]))
        ours, theirs = map(np.array, errors)
        bar = np.std((ours - theirs) / theirs.mean(), ddof=1) / np.sqrt(SPLITS)
        ms = [1000 * t / SPLITS for t in took]
        lines.append(f"| {title} | {len(y)} x {X.shape[1]} | {ours.mean():.4g} | {theirs.mean():.4g} | "
                     f"{ours.mean() / theirs.mean():.3f} ± {bar:.3f} | {ms[0]:.1f} | {ms[1]:.0f} | "
                     f"{ms[1] / ms[0]:.1f} |")
        print(lines[-1], flush=True)
    if options.write:
        with open(options.write, encoding="utf-8") as f:
            text = f.read()
        begin, end = "<!-- compare.py -->\n", "<!-- end of compare.py -->"
        head, rest = text.split(begin)
        with open(options.write, "w", encoding="utf-8") as f:
            f.write(head + begin + "\n".join(lines) + "\n" + end + rest.split(end)[1])


if __name__ == "__main__":
    main()

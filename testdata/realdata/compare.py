#!/usr/bin/python3
"""Twelve tables, matrices and photographs of Debian's packages: two commands of surepipe each, a choice
of the weight and predictions or a picture, beside cv.glmnet, LassoCV, softImpute, BayesShrink and
total variation.

    go build ./cmd/surepipe
    /usr/bin/python3 testdata/realdata/compare.py ./surepipe
    /usr/bin/python3 testdata/realdata/compare.py ./surepipe --write docs/benchmarks.md

The data are not part of this repository: they are those that the packages below install, written as
.csv, .npy and .tif files in a temporary folder, or in the one of --keep. --write replaces the table in
a document, between its markers.
"""
import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

PACKAGES = "r-base-core r-cran-mass r-cran-glmnet python3-sklearn python3-skimage python3-pandas python3-pywt"
SPLITS = 20  # halves of a table: random, two thirds to train
HIDDEN = 0.5  # the share of a matrix's entries that are held out
SIGMA = 0.1  # of the noise that is added to photographs

missing = [p for p in PACKAGES.split() if subprocess.run(["dpkg-query", "-W", p], capture_output=True).returncode]
if missing:
    sys.exit("missing packages: apt-get install -y --no-install-recommends " + " ".join(missing))

import numpy as np
import pandas as pd
import skimage
import sklearn.datasets
from skimage import img_as_float, io
from skimage.restoration import calibrate_denoiser, denoise_tv_chambolle, denoise_wavelet
from sklearn.linear_model import LassoCV, LogisticRegressionCV
from sklearn.preprocessing import StandardScaler

from softimpute import soft_impute

PHOTOGRAPHS = os.path.join(os.path.dirname(skimage.__file__), "data")
FACES = os.path.join(PHOTOGRAPHS, "lfw_subset.npy")


class Surepipe:
    """The program, and the processor seconds that its commands took."""

    def __init__(self, path):
        self.path, self.seconds, self.commands = os.path.abspath(path), 0.0, []

    def __call__(self, command, keep=True):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([self.path] + command.split(), capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode not in (0, 3):
            sys.exit(f"surepipe {command}: {done.stderr}")
        self.seconds += after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        if keep:
            self.commands.append(command)
        return done.stdout

    def lap(self):
        seconds, self.seconds = self.seconds, 0.0
        commands, self.commands = self.commands[:2], []
        return seconds, commands


def wanted(name):
    return not options.only or name in options.only.split(",")


def loss(kind, y, mean):
    """The mean error of predicted means: squared, or half the deviance."""
    if kind == "gaussian":
        return np.mean((y - mean) ** 2)
    mean = np.clip(mean, 1e-12, None)
    if kind == "poisson":
        return np.mean(mean - y + y * np.log(np.where(y > 0, y, 1) / mean))
    mean = np.clip(mean, None, 1 - 1e-12)
    return np.mean(-y * np.log(mean) - (1 - y) * np.log(1 - mean))


def sklearn_fit(kind, train, test, response):
    """LassoCV on standardized columns with indicators; None where it has no such family."""
    train = train.dropna()
    x, new = (pd.get_dummies(d.drop(columns=response)).astype(float) for d in (train, test))
    new = new.reindex(columns=x.columns, fill_value=0)
    scale = StandardScaler().fit(x)
    begin = time.process_time()
    if kind == "gaussian":
        fit = LassoCV(cv=10, random_state=0, max_iter=100000).fit(scale.transform(x), train[response])
        mean = fit.predict(scale.transform(new))
    elif kind == "binomial":
        fit = LogisticRegressionCV(Cs=20, cv=10, penalty="l1", solver="liblinear", scoring="neg_log_loss", random_state=0)
        mean = fit.fit(scale.transform(x), train[response]).predict_proba(scale.transform(new))[:, 1]
    else:
        return None, 0.0
    return mean, time.process_time() - begin


def tables(surepipe, rows):
    diabetes = sklearn.datasets.load_diabetes(as_frame=True, scaled=False).frame
    diabetes.to_csv("diabetes.csv", index=False)
    cancer = sklearn.datasets.load_breast_cancer(as_frame=True).frame
    cancer.columns = [c.replace(" ", ".") for c in cancer.columns]
    cancer.to_csv("cancer.csv", index=False)
    for name, title, response, kind in [
        ("boston", "Boston, house values (MASS)", "medv", "gaussian"),
        ("diabetes", "diabetes, progression (scikit-learn)", "target", "gaussian"),
        ("uscrime", "UScrime, crime rates (MASS)", "y", "gaussian"),
        ("airquality", "airquality, ozone, with missing values (R)", "Ozone", "gaussian"),
        ("cancer", "breast cancer, malignant or not (scikit-learn)", "target", "binomial"),
        ("quine", "quine, days absent, four categories (MASS)", "Days", "poisson"),
    ]:
        if not wanted(name):
            continue
        whole = pd.read_csv(name + ".csv")
        if whole.columns[0].startswith("Unnamed"):
            whole = whole.drop(columns=whole.columns[0])
        errors = {"surepipe": [], "cv.glmnet": [], "scikit-learn": []}
        seconds = dict.fromkeys(errors, 0.0)
        halves = []
        for k in range(1, SPLITS + 1):
            order = np.random.default_rng(k).permutation(len(whole))
            cut = len(whole) * 2 // 3
            train, test = whole.iloc[order[:cut]], whole.iloc[order[cut:]].dropna()
            train.to_csv(f"{name}-train-{k}.csv", index=False)
            test.to_csv(f"{name}-test-{k}.csv", index=False)
            halves.append((train, test))
        family = {"gaussian": "", "binomial": " --loss logistic", "poisson": " --loss poisson"}[kind]
        drop = " --missing drop" if name == "airquality" else ""
        for k, (train, test) in enumerate(halves, 1):
            surepipe(f"sweep --problem lasso --data {name}-train-{k}.csv --response {response}{family}{drop} --lambda 0.001max:max:60 --out {name}.npz")
            surepipe(f"predict --fit {name}.npz --data {name}-test-{k}.csv --out {name}-p.csv")
            y = test[response].to_numpy(float)
            errors["surepipe"].append(loss(kind, y, pd.read_csv(f"{name}-p.csv")["prediction"].to_numpy()))
            mean, took = sklearn_fit(kind, train, test, response)
            seconds["scikit-learn"] += took
            if mean is not None:
                errors["scikit-learn"].append(loss(kind, y, mean))
        seconds["surepipe"], commands = surepipe.lap()
        done = subprocess.run(["Rscript", os.path.join(HERE, "tables.R"), "fit", ".", name, response, kind, str(SPLITS)], check=True, capture_output=True, text=True)
        seconds["cv.glmnet"] = float(done.stdout)
        for k, (_, test) in enumerate(halves, 1):
            p = pd.read_csv(f"{name}-glmnet-{k}.csv")["prediction"].to_numpy()
            errors["cv.glmnet"].append(loss(kind, test[response].to_numpy(float), p))
        rows.append(row(title, errors, {k: v / SPLITS for k, v in seconds.items()}, commands))


def soft_impute_cv(y, seen, rng):
    """A softImpute baseline: rows and columns centered by their means in turn, a path of 15 weights,
    chosen on a tenth of the entries, and a fit to all of them."""

    def centered(mask):
        rows, cols = np.zeros((y.shape[0], 1)), np.zeros((1, y.shape[1]))
        count = lambda axis: np.maximum(mask.sum(axis, keepdims=True), 1)
        for _ in range(30):
            rows = np.where(mask, y - cols, 0).sum(1, keepdims=True) / count(1)
            cols = np.where(mask, y - rows, 0).sum(0, keepdims=True) / count(0)
        return rows + cols

    def path(mask, weights):
        effects, b = centered(mask), np.zeros_like(y)
        rest = np.where(mask, y - effects, 0)
        for w in weights:
            b = soft_impute(rest, mask, w, b)
            yield w, effects + b

    check = seen & (rng.random(y.shape) < 0.1)
    top = np.linalg.norm(np.where(seen, y - centered(seen), 0), 2)
    weights = top * np.geomspace(1, 0.01, 15)
    score = [np.mean((fit - y)[check] ** 2) for _, fit in path(seen & ~check, weights)]
    best = int(np.argmin(score))
    return list(path(seen, weights[: best + 1]))[-1][1]


def matrices(surepipe, rows):
    digits = sklearn.datasets.load_digits().data
    volcano = pd.read_csv("volcano.csv").iloc[:, 1:].to_numpy(float)
    faces = np.load(FACES).reshape(200, -1).astype(float)
    for name, title, y in [
        ("volcano", "volcano, heights, 87 x 61 (R)", volcano),
        ("digits", "digits, 1797 images of 64 pixels (scikit-learn)", digits),
        ("faces", "faces, 200 images of 625 pixels (scikit-image)", faces),
    ]:
        if not wanted(name):
            continue
        rng = np.random.default_rng(1)
        seen = rng.random(y.shape) >= HIDDEN
        partly = np.where(seen, y, np.nan)
        if name == "volcano":  # a matrix with names and empty cells
            pd.DataFrame(partly, [f"r{i}" for i in range(len(y))], [f"c{j}" for j in range(y.shape[1])]).to_csv("volcano-part.csv")
            data = "--data volcano-part.csv"
        elif name == "digits":  # a line for each entry
            i, j = np.nonzero(seen)
            pd.DataFrame({"image": i, "pixel": j, "value": y[seen]}).to_csv("digits-part.csv", index=False)
            data = "--data digits-part.csv --response value"
        else:
            np.save("faces-part.npy", partly)
            data = "--data faces-part.npy"
        surepipe(f"sweep --problem matrix-completion {data} --lambda 0.01max:max:15 --refine 0 --out {name}.npz")
        surepipe(f"predict --fit {name}.npz --out {name}-p.csv")
        seconds, commands = surepipe.lap()
        p = pd.read_csv(f"{name}-p.csv")
        number = lambda c: c.astype(str).str.lstrip("rc").astype(int)
        fit = np.full(y.shape, np.nan)
        fit[number(p.iloc[:, 0]), number(p.iloc[:, 1])] = p.iloc[:, 2]
        ours = np.nanmean((fit - y)[~seen] ** 2)
        begin = time.process_time()
        theirs = np.mean((soft_impute_cv(np.where(seen, y, 0), seen, rng) - y)[~seen] ** 2)
        rows.append(row(title, {"surepipe": [ours], "softImpute": [theirs]}, {"surepipe": seconds, "softImpute": time.process_time() - begin}, commands))


def photographs(surepipe, rows):
    for name in ["camera", "coins", "chelsea"]:
        if not wanted(name):
            continue
        mu = img_as_float(io.imread(os.path.join(PHOTOGRAPHS, name + ".png")))
        axis = -1 if mu.ndim == 3 else None
        np.save("clean.npy", mu)
        noisy = mu + SIGMA * np.random.default_rng(1).normal(size=mu.shape)
        np.save(name + ".npy", noisy)
        with open("denoise.yaml", "w") as f:
            f.write(surepipe("spec wavelet-denoise"))
        surepipe(f"run --spec denoise.yaml --data {name}.npy --sigma2 auto --out {name}-clean.npy")
        seconds, commands = surepipe.lap()
        ours = np.mean((np.load(name + "-clean.npy") - mu) ** 2)
        begin = time.process_time()
        shrunk = denoise_wavelet(noisy, method="BayesShrink", mode="soft", rescale_sigma=True, channel_axis=axis, convert2ycbcr=axis is not None)
        bayes, bayes_seconds = np.mean((shrunk - mu) ** 2), time.process_time() - begin
        begin = time.process_time()
        # scikit-image's own way to choose a weight without the truth (Batson and Royer 2019).
        chosen = calibrate_denoiser(noisy, denoise_tv_chambolle, {"weight": list(np.geomspace(0.03, 0.3, 12)), "channel_axis": [axis]})
        smooth = chosen(noisy)
        tv, tv_seconds = np.mean((smooth - mu) ** 2), time.process_time() - begin
        rows.append(row(f"{name}, a photograph of {' x '.join(map(str, mu.shape))} (scikit-image)", {"surepipe": [ours], "BayesShrink": [bayes], "TV": [tv]}, {"surepipe": seconds, "BayesShrink": bayes_seconds, "TV": tv_seconds}, commands))


def row(title, errors, seconds, commands):
    """A line of the table. The error of a ratio is that of the mean difference over the splits."""
    best = min((k for k in errors if k != "surepipe" and errors[k]), key=lambda k: np.mean(errors[k]))
    ours, theirs = np.array(errors["surepipe"]), np.array(errors[best])
    ratio = ours.mean() / theirs.mean()
    bar = ""
    if len(ours) > 1:
        bar = f" ± {np.std(ours - ratio * theirs, ddof=1) / np.sqrt(len(ours)) / theirs.mean():.3f}"
    others = ", ".join(f"{k} {np.mean(v):.4g} ({seconds[k]:.2f} s)" for k, v in errors.items() if k != "surepipe" and v)
    line = f"| {title} | {ours.mean():.4g} | {seconds['surepipe']:.2f} s | {others} | {ratio:.3f}{bar} |"
    print(line, flush=True)
    for c in commands:
        print("    surepipe " + c, flush=True)
    return line


parser = argparse.ArgumentParser()
parser.add_argument("surepipe")
parser.add_argument("--write", help="replace the table in this document")
parser.add_argument("--keep", help="work in this folder")
parser.add_argument("--only", help="some of the data by name, such as boston,faces")
options = parser.parse_args()
HERE = os.path.dirname(os.path.abspath(__file__))
document = options.write and os.path.abspath(options.write)
program = Surepipe(options.surepipe)
work = os.path.abspath(options.keep or tempfile.mkdtemp())
os.makedirs(work, exist_ok=True)
os.chdir(work)
subprocess.run(["Rscript", os.path.join(HERE, "tables.R"), "export", "."], check=True)
lines = ["| data | surepipe | CPU | others (CPU) | ratio to the best of them |", "| --- | --- | --- | --- | --- |"]
for part in [tables, matrices, photographs]:
    part(program, lines)
if not options.keep:
    shutil.rmtree(work)
if document:
    with open(document) as f:
        text = f.read()
    begin, end = "<!-- compare.py -->\n", "<!-- end of compare.py -->"
    head, rest = text.split(begin)
    _, tail = rest.split(end)
    with open(document, "w") as f:
        f.write(head + begin + "\n".join(lines) + "\n" + end + tail)

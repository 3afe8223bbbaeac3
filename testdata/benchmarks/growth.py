#!/usr/bin/python3
"""How the time of each family of problems grows with its size: processor seconds of a command at sizes that are at
least a factor of 64 apart, and the exponent of the size.

    go build ./cmd/surepipe
    /usr/bin/python3 testdata/benchmarks/growth.py ./surepipe [--families NAME,...] [--write docs/benchmarks.md]

The size is the number of observations, of a table the number of entries of X. Exponents are the slopes of the least
squares line through the logarithms, and in brackets between the last two sizes; the processor seconds are those of the
whole command, with reading. A family that fails, or whose result is marked, ends the script. --write replaces the rows
that were run in the table of a document, between its markers.
"""
import argparse, os, resource, subprocess, sys, tempfile
import numpy as np


def generated(problem, *options):
    """Data of surepipe generate; of images also the specification of that name."""
    def make(program, *size):
        flags = [str(x) for pair in zip(options, size) for x in pair]
        subprocess.run([program, "generate", "--problem", problem, *flags, "--out", "data.npz"], check=True, capture_output=True)
        if problem in ("ct", "mri"):
            with open("spec.yaml", "w") as f:
                f.write(subprocess.run([program, "spec", problem], capture_output=True, text=True).stdout.replace("angles: 90", f"angles: {size[-1]}"))
    return make


def grouped(program, d, p):
    """The same with five columns in a group."""
    generated("lasso", "--d", "--p")(program, d, p)
    np.savez("data.npz", **np.load("data.npz"), groups=np.arange(p) // 5)


def picture(program, rows, cols):
    """Discs of four levels on a ramp, with noise of 0.1."""
    i, j = np.mgrid[0:rows, 0:cols] / max(rows, cols)
    mu = 0.5 * j
    for a, b, r, v in ((0.3, 0.3, 0.2, 1), (0.7, 0.6, 0.25, 0.5), (0.6, 0.2, 0.1, -0.5), (0.2, 0.8, 0.15, 0.7)):
        mu[(i - a) ** 2 + (j - b) ** 2 < r * r] += v
    np.save("data.npy", mu + 0.1 * np.random.default_rng(0).standard_normal(mu.shape))


def classes(program, d, p):
    rng = np.random.default_rng(1)
    x, b = rng.standard_normal((d, p)), np.zeros(p)
    b[:10] = 0.5
    np.save("X.npy", x)
    np.save("y.npy", (rng.random(d) < 1 / (1 + np.exp(-x @ b))).astype(float))


def squares(first, count=4):
    return [(first << k, first << k) for k in range(count)]


def wide(first):
    return [(first << k, 2 * first << k) for k in range(4)]


def lengths(first):
    return [(first * 8 ** k,) for k in range(3)]


npz, tables = "--data data.npz", "--X X.npy --y y.npy"
# name: data, command, sizes, and the number that a size stands for
families = {
    "LASSO, a path of 40 weights": (generated("lasso", "--d", "--p"), f"sweep --problem lasso {npz} --lambda 0.05max:max:40 --refine 0", wide(200), np.prod),
    "group LASSO, 20 weights": (grouped, f"sweep --problem group-lasso {npz} --lambda 0.1max:max:20 --refine 0", wide(200), np.prod),
    "LASSO of yes or no, 20 weights": (classes, f"sweep --problem lasso --loss logistic {tables} --lambda 0.05max:max:20 --refine 0", [(200 << k, 50 << k) for k in range(4)], np.prod),
    "ridge regression": (generated("lasso", "--d", "--p"), f"run --problem ridge {npz} --lambda 10", wide(200), np.prod),
    "matrix completion, a tenth seen": (generated("matrix-completion", "--rows", "--cols"), f"run --problem matrix-completion {npz}", wide(100), lambda s: s[0] * s[1] // 10),
    "completion of ratings": (generated("matrix-completion", "--rows", "--cols", "--entries"), f"run --problem matrix-completion {npz} --effects rows,cols --lambda 0.1max", [(100 << k, 100 << k, 2000 << 2 * k) for k in range(4)], lambda s: s[2]),
    "robust PCA": (generated("robust-pca", "--rows", "--cols"), f"run --problem robust-pca {npz}", squares(50), np.prod),
    "singular value thresholding": (generated("svt", "--rows", "--cols"), f"run --problem svt {npz}", squares(100), np.prod),
    "total variation of a sequence": (generated("tv1d", "--d"), f"run --problem tv1d {npz}", lengths(10000), np.prod),
    "trend filtering": (generated("tv1d", "--d"), f"run --problem trend1d --lambda 100 {npz}", lengths(3000), np.prod),
    "Whittaker smoothing": (generated("tv1d", "--d"), f"run --problem whittaker --lambda 1000 {npz}", lengths(10000), np.prod),
    "total variation of an image": (picture, "run --problem tv2d --sigma2 0.01 --lambda 0.1 --data data.npy", squares(64), np.prod),
    "the same, anisotropic": (picture, "run --problem tv2d --anisotropic --sigma2 0.01 --lambda 0.1 --data data.npy", squares(64), np.prod),
    "wavelets of an image": (picture, "run --spec wavelet-denoise --sigma2 0.01 --data data.npy", squares(128), np.prod),
    "tomography with wavelets": (generated("ct", "--rows", "--d"), f"run --spec spec.yaml {npz} --lambda 1", squares(32), np.prod),
    "magnetic resonance with wavelets": (generated("mri", "--rows"), f"run --spec spec.yaml {npz} --lambda 0.1", [(32 << k,) for k in range(4)], lambda s: s[0] ** 2),
}


def seconds(program, command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([program, *command.split()], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"surepipe {command}: status {done.returncode}, {done.stderr}")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("--families", default=";".join(families), help="names with ; between")
parser.add_argument("--write", help="replace the rows that were run in the table of this document")
options = parser.parse_args()
asked = options.families.split(";")
if missing := [name for name in asked if name not in families]:
    parser.error(f"--families: there is no {'; '.join(missing)}; there are {'; '.join(families)}")
program, document = os.path.abspath(options.program), options.write and os.path.abspath(options.write)
lines = ["| family | sizes: processor seconds | exponent |", "| --- | --- | --- |"]
print("\n".join(lines), flush=True)
for name in asked:
    make, command, sizes, number = families[name]
    counts, took = [int(number(s)) for s in sizes], []
    assert counts[-1] >= 64 * counts[0], f"{name}: the sizes are a factor of {counts[-1] / counts[0]:.3g} apart"
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        for size in sizes:
            make(program, *size)
            took.append(min(seconds(program, command) for _ in range(2)))
        os.chdir("/")
    x, t = np.log(counts), np.log(took)
    last = (t[-1] - t[-2]) / (x[-1] - x[-2])
    cells = ", ".join(f"{n:.2g}: {s:.2g}" for n, s in zip(counts, took))
    lines.append(f"| {name} | {cells} | {np.polyfit(x, t, 1)[0]:.2f} ({last:.2f}) |")
    print(lines[-1], flush=True)
if document:
    with open(document) as f:
        text = f.read()
    begin, end = "<!-- growth.py -->\n", "<!-- end of growth.py -->"
    head, rest = text.split(begin)
    old, tail = rest.split(end)[0].splitlines()[2:], rest.split(end)[1]
    rows = {line.split("|")[1].strip(): line for line in old + lines[2:]}  # rows that were not run stay
    with open(document, "w") as f:
        f.write(head + begin + "\n".join(lines[:2] + [rows[name] for name in families if name in rows]) + "\n" + end + tail)

#!/usr/bin/python3
"""Commands beside their peers, in turn: user seconds of the processor, the least of some runs.

    apt-get install -y --no-install-recommends python3-skimage python3-sklearn
    go build ./cmd/surepipe
    /usr/bin/python3 testdata/benchmarks/rows.py ./surepipe [OTHER ...] [--rows NAME,...] [--runs 3] [--write docs/benchmarks.md]

A row is a command with its data, which the script makes, and what it is compared with. Further binaries are timed beside the first, in
turn. Rows that take minutes, as do those of `minutes` below, are run where --rows names them. --write replaces the table in a document,
between its markers.
"""
import argparse, json, os, resource, subprocess, tempfile
import numpy as np
import skimage
from skimage import color, data
from skimage.restoration import denoise_tv_chambolle
from skimage.transform import resize
from sklearn.datasets import load_digits


def astronaut(rows, cols):
    """A photograph with noise of 0.1, as y.npy, and mu.npy."""
    mu = resize(color.rgb2gray(data.astronaut()), (rows, cols), anti_aliasing=True)
    y = mu + 0.1 * np.random.default_rng(0).standard_normal(mu.shape)
    np.save("mu.npy", mu)
    np.save("y.npy", y)
    return y, mu


def colours(side):
    mu = resize(data.astronaut() / 255, (side, side), anti_aliasing=True)
    y = mu + 0.1 * np.random.default_rng(0).standard_normal(mu.shape)
    np.save("mu.npy", mu)
    np.save("y.npy", y)


def video():
    """A still background with a bright square that moves, frames in columns."""
    rng = np.random.default_rng(0)
    frames = rng.random((60 * 72, 4)) @ rng.random((4, 96))
    for f in range(96):
        at = np.zeros((60, 72))
        at[20:30, f * 60 // 96:f * 60 // 96 + 10] = 2
        frames[:, f] += at.ravel()
    np.savez("video.npz", y=frames + 0.1 * rng.standard_normal(frames.shape), sigma2=0.01)


def digits():
    x = load_digits().data.astype(float)
    x[np.random.default_rng(0).random(x.shape) < 0.5] = np.nan
    np.save("digits.npy", x)


def faces():
    """200 images of 625 pixels, a tenth of them hidden."""
    x = np.load(os.path.join(os.path.dirname(skimage.__file__), "data", "lfw_subset.npy")).reshape(200, -1).astype(float)
    x[np.random.default_rng(1).random(x.shape) < 0.1] = np.nan
    np.save("faces.npy", x)


tomograph = """
data: data.npz
operator: {projection: {angles: 180}}
terms:
  - operator: gradient
    regularizer: {joint-l2: lambda}
lambda: 5
"""


def responses(count):
    """Responses of 1000 rows with 20,000 columns, each with 20 coefficients of its own."""
    rng = np.random.default_rng(7)
    x, b = rng.standard_normal((1000, 20000)), np.zeros((20000, 50))
    for k in range(50):
        b[rng.choice(20000, 20, replace=False), k] = rng.standard_normal(20)
    mu = x @ b
    y = mu + 0.5 * mu.std() * rng.standard_normal(mu.shape)
    np.save("X.npy", x)
    np.save("y.npy", y[:, :count])


def drawn(problem, *size, spec=None):
    def make(program):
        with open("spec.yaml", "w") as f:
            f.write(spec or subprocess.run([program, "spec", problem], stdout=subprocess.PIPE, text=True).stdout)
        subprocess.run([program, "generate", "--problem", problem, *size, "--out", "data.npz"], capture_output=True, check=True)
    return make


def chambolle(y, mu):
    """The least squared error of scikit-image's denoiser, at eps 1e-6, over the weights of the sweep."""
    return min(np.sum((denoise_tv_chambolle(y, weight=w, eps=1e-6, max_num_iter=10000) - mu) ** 2)
               for w in np.geomspace(0.02, 0.3, 12))


path = "sweep --problem lasso --X X.npy --y y.npy --lambda 0.1max:max:100"
tv = "--problem tv2d --data y.npy --sigma2 0.01"
twelve = f"sweep {tv} --mu mu.npy --lambda 0.02:0.3:12 --refine 0"
# name: data, command, peer
rows = {
    "tv-256": (lambda p: astronaut(256, 256), twelve, chambolle),
    "tv-256-refined": (lambda p: astronaut(256, 256), twelve.replace(" --refine 0", ""), None),
    "tv-512": (lambda p: astronaut(512, 512), twelve, chambolle),
    "tv-colour-256": (lambda p: colours(256), twelve + " --vectorial", None),
    "tv-anisotropic-256": (lambda p: astronaut(256, 256), twelve + " --anisotropic", None),
    "tv-550x660-0.1max": (lambda p: astronaut(550, 660), f"run {tv} --lambda 0.1max", None),
    "ct-64": (drawn("ct", "--rows", "64", "--d", "90"), "sweep --spec spec.yaml --data data.npz --lambda 0.2:10:8 --refine 0", None),
    "ct-96": (drawn("ct", "--rows", "96", "--d", "90"), "sweep --spec spec.yaml --data data.npz --lambda 0.2:10:16 --refine 0", None),
    "mri-96": (drawn("mri", "--rows", "96"), "run --spec spec.yaml --data data.npz --lambda 0.1", None),
    "rpca-video": (lambda p: video(), "sweep --problem robust-pca --data video.npz --lambda 0.05max:max:8 --gamma 0.05max:max:8 --refine 0", None),
    "digits-gcv": (lambda p: digits(), "sweep --problem matrix-completion --data digits.npy --effects rows,cols --lambda 0.05max:max:15 --criterion gcv --refine 0", None),
    "digits-alo": (lambda p: digits(), "sweep --problem matrix-completion --data digits.npy --effects rows,cols --lambda 0.02max:max:12", None),
    "faces": (lambda p: faces(), "sweep --problem matrix-completion --data faces.npy --effects rows,cols --lambda 0.01max:max:15 --refine 0", None),
    "power-law": (drawn("matrix-completion", "--rows", "6040", "--cols", "3706", "--entries", "334000"),
                  "run --problem matrix-completion --data data.npz --lambda 0.1max", None),
    "completion-effects": (drawn("matrix-completion", "--rows", "943", "--cols", "1682", "--entries", "100000"),
                           "run --problem matrix-completion --data data.npz --effects rows,cols --lambda 0.03max", None),
    "response": (lambda p: responses(1), path, None),
    "responses-50": (lambda p: responses(50), path, None),
    "responses-50-mapped": (lambda p: responses(50), path + " --storage mapped", None),
    "lasso-0.01max": (drawn("lasso", "--d", "2500"), "run --problem lasso --data data.npz --lambda 0.01max", None),
}
# those that take minutes
minutes = {
    "tv-colour-512": (lambda p: colours(512), twelve + " --vectorial", None),
    "tv-2048-one": (lambda p: astronaut(2048, 2048), f"run {tv} --lambda 0.08", None),
    "ct-tv-256": (drawn("ct", "--rows", "256", "--d", "180", spec=tomograph),
                  "sweep --spec spec.yaml --data data.npz --lambda 1:20:20 --refine 0", None),
}


def user(who):
    return resource.getrusage(who).ru_utime


def ours(program, command):
    """User and wall seconds, the largest memory in GB, and what was found."""
    result = subprocess.run(["/usr/bin/time", "-f", "%U %e %M", program, *command.split(), "--json"], capture_output=True, text=True)
    if result.returncode not in (0, 3):
        return None
    seconds, wall, kilobytes = map(float, result.stderr.splitlines()[-1].split())
    last = json.loads(result.stdout.splitlines()[-1])
    found = last.get("minimizer") or last
    return seconds, wall, kilobytes / 1e6, found, result.returncode


def least(runs, place):
    return min(r[place] for r in runs)


parser = argparse.ArgumentParser()
parser.add_argument("programs", nargs="+")
parser.add_argument("--rows", default=",".join(rows))
parser.add_argument("--runs", type=int, default=3)
parser.add_argument("--write", help="replace the table in this document")
options = parser.parse_args()
programs = [os.path.abspath(p) for p in options.programs]
document = options.write and os.path.abspath(options.write)
lines = ["| row | " + " | ".join(f"{os.path.basename(p)}, user s | wall s | GB" for p in programs) + " | SURE (loss) | beside |",
         "| --- " * (3 * len(programs) + 3) + "|"]
print("\n".join(lines), flush=True)
for name in options.rows.split(","):
    make, command, peer = (rows | minutes)[name]
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        made = make(programs[0])
        runs, beside, error = [[] for _ in programs], [], 0
        for _ in range(options.runs):
            for r, p in zip(runs, programs):
                r.append(ours(p, command))
            if peer:
                before = user(resource.RUSAGE_SELF)
                error = peer(*made)
                beside.append(user(resource.RUSAGE_SELF) - before)
        cells = []
        for r in runs:
            cells.append("failed | | " if None in r else f"{least(r, 0):.1f} | {least(r, 1):.1f} | {least(r, 2):.2f}")
        found = runs[0][0] and runs[0][0][3]
        said = "" if not found else " ".join(f"{found[k]:.4g}" if k == "sure" else f"({found[k]:.4g})" for k in ("sure", "loss")
                                             if isinstance(found.get(k), (int, float)))
        if found and runs[0][0][4] == 3:
            said += ", marked"
        other = f"scikit-image {min(beside):.1f} s, least loss {error:.1f}" if beside else ""
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {said} | {other} |")
        print(lines[-1], flush=True)
        os.chdir("/")
if document:
    with open(document) as f:
        text = f.read()
    begin, end = "<!-- rows.py -->\n", "<!-- end of rows.py -->"
    head, tail = text.split(begin)[0], text.split(end)[1]
    with open(document, "w") as f:
        f.write(head + begin + "\n".join(lines) + "\n" + end + tail)

#!/usr/bin/python3
"""Commands beside their peers, in turn: user seconds of the processor, the least of some runs.

    apt-get install -y --no-install-recommends python3-skimage python3-sklearn python3-pywt r-cran-glmnet
    go build ./cmd/surepipe
    /usr/bin/python3 testdata/benchmarks/rows.py ./surepipe [OTHER ...] [--rows NAME,...] [--runs 3] [--write docs/benchmarks.md]

A row is a command with its data, which the script makes, and what it is compared with. Further binaries are timed beside the first, in
turn. Rows that take minutes, as do those of `minutes` below, are run where --rows names them. --write replaces the rows that were run in the table of a
document, between its markers.
"""
import argparse, json, os, resource, subprocess, sys, tempfile, warnings
import numpy as np
import pywt
import scipy.io
import scipy.sparse
import skimage
from skimage import color, data
from skimage.restoration import denoise_tv_chambolle
from skimage.transform import resize
from sklearn.datasets import load_digits

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "realdata"))
from softimpute import soft_impute


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
    return y, mu


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


def table(d, p):
    """Data of a LASSO, also as X.npy and y.npy."""
    def make(program):
        drawn("lasso", "--d", d, "--p", p)(program)
        with np.load("data.npz") as z:
            np.save("X.npy", z["X"])
            np.save("y.npy", z["y"])
    return make


def timed(name, work):
    """The seconds of this process for work, and name with what it returns."""
    before = user(resource.RUSAGE_SELF)
    found = work()
    return user(resource.RUSAGE_SELF) - before, f"{name} {{:.1f}} s{found}"


def chambolle(*weights):
    """The least squared error of scikit-image's denoiser, at eps 1e-6, over weights."""
    def run(_, y, mu):
        return timed("scikit-image", lambda: ", least loss {:.1f}".format(min(np.sum((denoise_tv_chambolle(
            y, weight=w, eps=1e-6, max_num_iter=10000, channel_axis=-1 if y.ndim == 3 else None) - mu) ** 2) for w in weights)))
    return run


def fista(*_):
    """FISTA in numpy for the complex image of data.npz, by sym4 wavelets, until an iterate changes by 1e-6 of itself."""
    warnings.simplefilter("ignore")
    z = np.load("data.npz")
    y, mask = z["y"], z["mask"] != 0

    def samples(x):
        return np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(x), norm="ortho"))[mask]

    def adjoint(v):
        k = np.zeros(mask.shape, complex)
        k[mask] = v
        return np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(k), norm="ortho"))

    def transform(x):
        return pywt.coeffs_to_array(pywt.wavedec2(x, "sym4", "periodization", 4))

    def work():
        c, places = transform(np.zeros(mask.shape, complex))
        rest = tuple(n // 16 for n in mask.shape)
        image = lambda c: pywt.waverec2(pywt.array_to_coeffs(c, places, "wavedec2"), "sym4", "periodization")
        u, t, change = c, 1, 1
        while change > 1e-6:
            new = u - transform(adjoint(samples(image(u)) - y))[0]
            averages = new[:rest[0], :rest[1]].copy()
            new = new * np.maximum(1 - 0.1 / np.maximum(np.abs(new), 1e-300), 0)
            new[:rest[0], :rest[1]] = averages
            change, s = np.linalg.norm(new - c) / np.linalg.norm(new), (1 + np.sqrt(1 + 4 * t * t)) / 2
            u, c, t = new + (t - 1) / s * (new - c), new, s
        return ", loss {:.2f}, no divergence".format(np.sum(np.abs(samples(image(c)) - z["mu"]) ** 2))
    return timed("FISTA in numpy", work)


def components(found, *_):
    """Robust PCA in numpy at the weights that were chosen, one fit: each part in turn, to a change of 1e-6."""
    y = np.load("video.npz")["y"]

    def work():
        low, sparse, change = np.zeros_like(y), np.zeros_like(y), 1
        while change > 1e-6:
            u, s, v = np.linalg.svd(y - sparse, full_matrices=False)
            new = (u * np.maximum(s - found["lambda"], 0)) @ v
            sparse = y - new
            sparse = np.sign(sparse) * np.maximum(np.abs(sparse) - found["gamma"], 0)
            change, low = np.linalg.norm(new - low) / max(np.linalg.norm(new), 1e-300), new
        return " for one fit"
    return timed("numpy", work)


def imputed(name, least, count):
    """softImpute in numpy along the path of the row, of entries whose rows and columns are centered."""
    def run(*_):
        y = np.load(name)
        seen = ~np.isnan(y)

        def work():
            effects = np.zeros_like(y)
            for _ in range(30):
                for axis in (1, 0):
                    effects += np.nanmean(y - effects, axis=axis, keepdims=True)
            rest, b = np.where(seen, y - effects, 0), np.zeros_like(y)
            for w in np.linalg.norm(rest, 2) * np.geomspace(1, least, count):
                b = soft_impute(rest, seen, w, b)
            return ", one path"
        return timed("softImpute in numpy", work)
    return run


def correlated(rng, d, p, r):
    x = rng.standard_normal((d, p))
    for j in range(1, p):
        x[:, j] = r * x[:, j - 1] + np.sqrt(1 - r * r) * x[:, j]
    return x


def losses(d, p, loss, r=0.5):
    """X.npy and y.npy of a regression with another loss, columns correlated with those beside them."""
    rng = np.random.default_rng(1)
    x, b = correlated(rng, d, p, r), np.zeros((p, 5))
    for k in range(5):
        b[rng.choice(p, max(p // 50, 10), False), k] = 0.5 * rng.standard_normal(max(p // 50, 10))
    z = x @ b[:, 0]
    time, censored = rng.exponential(size=d) * np.exp(-z), 2 * rng.exponential(size=d)
    y = {"logistic": (rng.random(d) < 1 / (1 + np.exp(-z))), "poisson": rng.poisson(np.exp(0.4 * z + 0.5)),
         "multinomial": (x @ b + rng.gumbel(size=(d, 5))).argmax(1), "cox": time <= censored}[loss].astype(float)
    np.save("X.npy", x)
    np.save("y.npy", np.column_stack([np.minimum(time, censored), y]) if loss == "cox" else y)
    np.savez("data.npz", X=x, y=y, time=np.minimum(time, censored))


def shared(d=1000, p=200, k=10):
    """Ten responses of which a tenth of the columns, correlated with those beside them, says something."""
    rng = np.random.default_rng(1)
    x, b = correlated(rng, d, p, 0.9), np.zeros((p, k))
    b[rng.choice(p, p // 10, False)] = rng.standard_normal((p // 10, k))
    y = x @ b + 3 * rng.standard_normal((d, k))
    np.save("X.npy", x)
    np.save("y.npy", y)


def words(d=20000, p=47000):
    """Texts of about 75 words, by how rare these are, each of length 1, in two classes: rcv1's shape."""
    rng = np.random.default_rng(5)
    often = 1 / (np.arange(p) + 20) ** 0.9
    size = np.maximum(rng.poisson(78, d), 5)
    x = scipy.sparse.csr_matrix((np.ones(size.sum()), (np.repeat(np.arange(d), size),
                                                       rng.choice(p, size.sum(), p=often / often.sum()))), shape=(d, p))
    x.sum_duplicates()
    rare = np.log(d / (1 + np.bincount(x.indices, minlength=p))).clip(0.1)
    x.data = (1 + np.log(x.data)) * rare[x.indices]
    x = (scipy.sparse.diags(1 / np.sqrt(np.asarray(x.multiply(x).sum(1)).ravel())) @ x).tocsr()
    b = np.zeros(p)
    b[rng.choice(3000, 300, False)] = 25 * rng.standard_normal(300)
    z = x @ b
    scipy.sparse.save_npz("X.npz", x)
    scipy.io.mmwrite("X.mtx", x)
    np.save("y.npy", (rng.random(d) < 1 / (1 + np.exp(z.mean() - z))).astype(float))


script = """
suppressMessages({library(glmnet); library(Matrix)})
read <- function(file, columns) {
    f <- file(file, "rb"); on.exit(close(f)); seek(f, 128)
    matrix(readBin(f, "double", (file.size(file) - 128) / 8), ncol = columns, byrow = TRUE)
}
y <- read("y.npy", %(columns)d)
if ("%(family)s" == "cox") colnames(y) <- c("time", "status")
x <- if (file.exists("X.mtx")) as(readMM("X.mtx"), "CsparseMatrix") else read("X.npy", file.size("X.npy") %%/%% 8 %%/%% nrow(y))
glmnet.control(fdev = 0)
cat(system.time(glmnet(x, y, "%(family)s", standardize = FALSE, thresh = %(thresh)s, %(grid)s))[["user.self"]])
"""


def glmnet(family, grid="nlambda = 100", columns=1, thresh="1e-10"):
    """The seconds of glmnet's path, the fit alone; y has so many columns."""
    def run(*_):
        text = script % dict(family=family, grid=grid, columns=columns, thresh=thresh)
        return float(subprocess.run(["Rscript", "-e", text], stdout=subprocess.PIPE, check=True, text=True).stdout), "glmnet {:.1f} s"
    return run


path = "sweep --problem lasso --X X.npy --y y.npy --lambda 0.1max:max:100"
tv = "--problem tv2d --data y.npy --sigma2 0.01"
arrays = "sweep --problem lasso --X X.npy --y y.npy --loss"
fifty, ratio = "--lambda 0.02max:max:50 --refine 0 --criterion alo", "nlambda = 50, lambda.min.ratio = 0.02"
weights = np.geomspace(0.02, 0.3, 12)
twelve = f"sweep {tv} --mu mu.npy --lambda 0.02:0.3:12 --refine 0"
# name: data, command, peer
rows = {
    "tv-256": (lambda p: astronaut(256, 256), twelve, chambolle(*weights)),
    "tv-256-refined": (lambda p: astronaut(256, 256), twelve.replace(" --refine 0", ""), None),
    "tv-512": (lambda p: astronaut(512, 512), twelve, chambolle(*weights)),
    "tv-colour-256": (lambda p: colours(256), twelve + " --vectorial", chambolle(*weights)),
    "tv-anisotropic-256": (lambda p: astronaut(256, 256), twelve + " --anisotropic", None),
    "tv-550x660-0.1max": (lambda p: astronaut(550, 660), f"run {tv} --lambda 0.1max", None),
    "tv-512-one": (lambda p: astronaut(512, 512), f"run {tv} --lambda 0.08", chambolle(0.08)),
    "tv-1024-one": (lambda p: astronaut(1024, 1024), f"run {tv} --lambda 0.08", chambolle(0.08)),
    "trend-1e6": (drawn("tv1d", "--d", "1000000"), "run --problem trend1d --order 1 --lambda 1000 --data data.npz", None),
    "whittaker-1e6": (drawn("tv1d", "--d", "1000000"), "run --problem whittaker --lambda 1000 --data data.npz", None),
    "ct-64": (drawn("ct", "--rows", "64", "--d", "90"), "sweep --spec spec.yaml --data data.npz --lambda 0.2:10:8 --refine 0", None),
    "ct-96": (drawn("ct", "--rows", "96", "--d", "90"), "sweep --spec spec.yaml --data data.npz --lambda 0.2:10:16 --refine 0", None),
    "mri-96": (drawn("mri", "--rows", "96"), "run --spec spec.yaml --data data.npz --lambda 0.1", fista),
    "rpca-video": (lambda p: video(), "sweep --problem robust-pca --data video.npz --lambda 0.05max:max:8 --gamma 0.05max:max:8 --refine 0", components),
    "digits-gcv": (lambda p: digits(), "sweep --problem matrix-completion --data digits.npy --effects rows,cols --lambda 0.05max:max:15 --criterion gcv --refine 0", imputed("digits.npy", 0.05, 15)),
    "digits-alo": (lambda p: digits(), "sweep --problem matrix-completion --data digits.npy --effects rows,cols --lambda 0.02max:max:12", imputed("digits.npy", 0.02, 12)),
    "faces": (lambda p: faces(), "sweep --problem matrix-completion --data faces.npy --effects rows,cols --lambda 0.01max:max:15 --refine 0", imputed("faces.npy", 0.01, 15)),
    "power-law": (drawn("matrix-completion", "--rows", "6040", "--cols", "3706", "--entries", "334000"),
                  "run --problem matrix-completion --data data.npz --lambda 0.1max", None),
    "completion-effects": (drawn("matrix-completion", "--rows", "943", "--cols", "1682", "--entries", "100000"),
                           "run --problem matrix-completion --data data.npz --effects rows,cols --lambda 0.03max", None),
    "response": (lambda p: responses(1), path, None),
    "responses-50": (lambda p: responses(50), path, None),
    "responses-50-mapped": (lambda p: responses(50), path + " --storage mapped", None),
    "responses-shared": (lambda p: shared(), "sweep --problem group-lasso --X X.npy --y y.npy --loss mgaussian --refine 0",
                         glmnet("mgaussian", columns=10)),
    "logistic-tall": (lambda p: losses(100000, 50, "logistic"), f"{arrays} logistic", glmnet("binomial")),
    "poisson-tall": (lambda p: losses(100000, 50, "poisson"), f"{arrays} poisson", glmnet("poisson")),
    "multinomial": (lambda p: losses(10000, 50, "multinomial"), f"{arrays} multinomial", glmnet("multinomial")),
    "cox": (lambda p: losses(20000, 50, "cox"), "sweep --problem lasso --loss cox --data data.npz --criterion aic", glmnet("cox", columns=2)),
    "logistic-5000": (lambda p: losses(5000, 5000, "logistic", 0.6), f"{arrays} logistic {fifty}", glmnet("binomial", ratio)),
    "logistic-sparse": (lambda p: words(), f"{arrays} logistic {fifty}".replace("X.npy", "X.npz"),
                        glmnet("binomial", ratio + ", intercept = FALSE", thresh="1e-16")),  # as near to the optimum
    "lasso-0.01max": (table("2500", "5000"), "run --problem lasso --data data.npz --lambda 0.01max", glmnet("gaussian", "lambda.min.ratio = 0.01")),
    "lasso-path": (table("2500", "5000"), "sweep --problem lasso --data data.npz --lambda 0.01max:max:100 --refine 0",
                   glmnet("gaussian", "lambda.min.ratio = 0.01")),
    "lasso-wide": (table("1000", "100000"), "sweep --problem lasso --data data.npz --lambda 0.1max:max:100 --refine 0",
                   glmnet("gaussian", "lambda.min.ratio = 0.1")),
}
# those that take minutes
minutes = {
    "tv-colour-512": (lambda p: colours(512), twelve + " --vectorial", chambolle(*weights)),
    "tv-2048-one": (lambda p: astronaut(2048, 2048), f"run {tv} --lambda 0.08", chambolle(0.08)),
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
parser.add_argument("--write", help="replace the rows that were run in the table of this document")
options = parser.parse_args()
asked, known = options.rows.split(","), rows | minutes
if missing := [name for name in asked if name not in known]:
    parser.error(f"--rows: no row is named {', '.join(missing)}; there are {', '.join(known)}")
programs = [os.path.abspath(p) for p in options.programs]
document = options.write and os.path.abspath(options.write)
lines = ["| row | " + " | ".join(f"{os.path.basename(p)}, user s | wall s | GB" for p in programs) + " | SURE (loss) | beside |",
         "| --- " * (3 * len(programs) + 3) + "|"]
print("\n".join(lines), flush=True)
for name in asked:
    make, command, peer = known[name]
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        made = make(programs[0])
        runs, beside, text = [[] for _ in programs], [], ""
        for _ in range(options.runs):
            for r, p in zip(runs, programs):
                r.append(ours(p, command))
            if peer:
                taken, text = peer(r[-1] and r[-1][3], *(made or ()))
                beside.append(taken)
        cells = []
        for r in runs:
            cells.append("failed | | " if None in r else f"{least(r, 0):.1f} | {least(r, 1):.1f} | {least(r, 2):.2f}")
        found = runs[0][0] and runs[0][0][3]
        said = "" if not found else " ".join(f"{found[k]:.4g}" if k == "sure" else f"({found[k]:.4g})" for k in ("sure", "loss")
                                             if isinstance(found.get(k), (int, float)))
        if found and runs[0][0][4] == 3:
            said += ", marked"
        other = text.format(min(beside)) if beside else ""
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {said} | {other} |")
        print(lines[-1], flush=True)
        os.chdir("/")
if document:
    with open(document) as f:
        text = f.read()
    begin, end = "<!-- rows.py -->\n", "<!-- end of rows.py -->"
    head, old, tail = text.split(begin)[0], text.split(begin)[1].split(end)[0].splitlines()[2:], text.split(end)[1]
    rows = {line.split("|")[1].strip(): line for line in old + lines[2:]}  # rows that were not run stay
    table = lines[:2] + [rows[name] for name in known if name in rows]
    with open(document, "w") as f:
        f.write(head + begin + "\n".join(table) + "\n" + end + tail)

#!/usr/bin/python3
"""Is the choice of a sweep that of certified points? For every data set of sources.py and photographs of scikit-image
the sweep is run as it is by default, and with --tol, which certifies every point.

    go build ./cmd/surepipe
    /usr/bin/python3 testdata/realdata/choices.py ./surepipe [--only NAME,...]

The choices are the same if the weight that is chosen by default is that of the certified sweep, or among those that
the certified sweep cannot tell from it (`alike`). The exit status is 1 where one is not. Points that are not certified
are counted, and by how much of its bar SURE changes at the worst of them, beside the largest that is said.
"""
import argparse, json, os, subprocess, sys, tempfile
import numpy as np
import skimage.data
from skimage import img_as_float
from skimage.transform import rescale

import sources

BLURRED = """
data: y.npy
operator:
  convolution: {gaussian: 1.5, boundary: zero-padded}
terms:
  - operator: gradient
    regularizer: {joint-l2: lambda}
lambda: 0.002
"""
PHOTOGRAPHS = "camera coins moon page text clock brick grass gravel astronaut coffee chelsea rocket".split()


def swept(program, folder, *args):
    done = subprocess.run([program, "sweep", *map(str, args), "--refine", "0", "--json"], capture_output=True, text=True, cwd=folder)
    if done.returncode not in (0, 3):
        return None
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [line for line in lines if isinstance(line.get("solver"), dict)], lines[-1]


def commands(folder):
    """Names with the arguments of a sweep, whose data are written as they come."""
    at = lambda name: os.path.join(folder, name)
    for kind in ("tables", "counts and classes"):
        for name, data in sources.of(kind, folder):
            data["frame"].to_csv(at("t.csv"), index=False)
            loss = [] if data["family"] == "squared" else ["--loss", data["family"]]
            yield name, ["--problem", "lasso", "--data", "t.csv", "--response", data["response"], "--standardize",
                         "--intercept", "--lambda", "0.001max:max:25", *loss], "1e-8"
    for name, data in sources.of("matrices", folder):
        x = data["x"]
        np.save(at("y.npy"), np.where(np.random.default_rng(0).random(x.shape) < data.get("seen", 0.7), x, np.nan))
        yield name, ["--problem", "matrix-completion", "--y", "y.npy", "--effects", "rows,cols", "--lambda", "0.02max:max:10"], "1e-7"
    for name in PHOTOGRAPHS:
        image = img_as_float(getattr(skimage.data, name)())
        image = rescale(image, 128 / max(image.shape[:2]), anti_aliasing=True, channel_axis=-1 if image.ndim == 3 else None)
        np.save(at("y.npy"), image + 0.1 * np.random.default_rng(0).standard_normal(image.shape))
        with open(at("blurred.yaml"), "w") as f:
            f.write(BLURRED)
        noise = ["--data", "y.npy", "--sigma2", "0.01", "--lambda"]
        yield name, ["--problem", "tv2d", *noise, "0.02:0.5:8"], "1e-6"
        yield name + ", anisotropic", ["--problem", "tv2d", "--anisotropic", *noise, "0.02:0.5:8"], "1e-6"
        if image.ndim == 2:
            yield name + ", deblurred", ["--spec", "blurred.yaml", *noise, "0.005:0.2:8"], "1e-5"


parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("--only", help="names with commas between")
options = parser.parse_args()
program, only = os.path.abspath(options.program), options.only and options.only.split(",")
wrong = sets = points = 0
worst = said = 0.0
with tempfile.TemporaryDirectory() as folder:
    for name, args, tol in commands(folder):
        if only and name.split(",")[0] not in only:
            continue
        rough, exact = swept(program, folder, *args), swept(program, folder, *args, "--tol", tol)
        if not rough or not exact:
            print(f"{name}: no sweep", flush=True)
            continue
        sets += 1
        for a, b in zip(rough[0], exact[0]):
            if change := a["solver"].get("sure_change"):
                points += 1
                worst = max(worst, abs(a["residual"] - b["residual"]) / b["sure_stderr"])
                said = max(said, change / b["sure_stderr"])
        at, best = rough[1]["minimizer"]["index"], exact[1]["minimizer"]["index"]
        if at != best and at not in exact[1]["alike"]:
            wrong += 1
            print(f"{name}: point {at} is chosen, among certified ones {best}, alike {exact[1]['alike']}", flush=True)
print(f"{sets} sweeps, {wrong} with another choice; {points} points are not certified, their residual changes by {worst:.2g} "
      f"bars of SURE at most, and SURE is said to change by {said:.2g} at most")
sys.exit(wrong > 0)

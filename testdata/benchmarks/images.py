#!/usr/bin/python3
"""Sweeps of images beside scikit-image, in turn: user seconds of the processor, the medians of three runs.

    apt-get install -y --no-install-recommends python3-skimage
    go build ./cmd/surepipe
    /usr/bin/python3 testdata/benchmarks/images.py ./surepipe [OTHER ...]

Total variation of scikit-image's astronaut, grey, 256 x 256, noise of 0.1, twelve weights; beside it
denoise_tv_chambolle at eps 1e-6 with the same weights. Tomography with wavelets (spec ct), 64 x 64 and 96 x 96 pixels at 90
angles. Further binaries are timed beside the first.
"""
import json, os, resource, statistics, subprocess, sys, tempfile
import numpy as np
from skimage import color, data
from skimage.restoration import denoise_tv_chambolle
from skimage.transform import resize

programs = [os.path.abspath(p) for p in sys.argv[1:]]
weights = np.geomspace(0.02, 0.3, 12)


def user(who):
    return resource.getrusage(who).ru_utime


def ours(program, args):
    before = user(resource.RUSAGE_CHILDREN)
    lines = subprocess.run([program, "sweep", "--refine", "0", "--json", *args], capture_output=True, check=True).stdout.splitlines()
    return user(resource.RUSAGE_CHILDREN) - before, json.loads(lines[-1])["minimizer"]


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    mu = resize(color.rgb2gray(data.astronaut()), (256, 256), anti_aliasing=True)
    y = mu + 0.1 * np.random.default_rng(0).standard_normal(mu.shape)
    np.save("mu.npy", mu)
    np.save("y.npy", y)
    with open("ct.yaml", "w") as f:
        subprocess.run([programs[0], "spec", "ct"], stdout=f, check=True)
    tv = ["--problem", "tv2d", "--data", "y.npy", "--mu", "mu.npy", "--sigma2", "0.01", "--lambda", "0.02:0.3:12"]
    rows = {"total variation 256 x 256": tv, "anisotropic": tv + ["--anisotropic"]}
    for n in (64, 96):
        subprocess.run([programs[0], "generate", "--problem", "ct", "--rows", str(n), "--d", "90", "--out", f"ct{n}.npz"], capture_output=True, check=True)
        rows[f"tomography {n} x {n}"] = ["--spec", "ct.yaml", "--data", f"ct{n}.npz", "--lambda", "0.2:10:8"]
    print("| sweep | " + " | ".join(os.path.basename(p) for p in programs) + " | beside |\n" + "| --- " * (len(programs) + 2) + "|", flush=True)
    for name, args in rows.items():
        times, chosen, beside = [[] for _ in programs], {}, []
        for _ in range(3):
            for t, p in zip(times, programs):
                seconds, chosen = ours(p, args)
                t.append(seconds)
            if name.startswith("total"):
                before = user(resource.RUSAGE_SELF)
                losses = [np.sum((denoise_tv_chambolle(y, weight=w, eps=1e-6, max_num_iter=10000) - mu) ** 2) for w in weights]
                beside.append(user(resource.RUSAGE_SELF) - before)
        other = f"scikit-image {statistics.median(beside):.1f} s, least loss {min(losses):.1f}; loss at least SURE {chosen['loss']:.1f}" if beside else ""
        print(f"| {name} | " + " | ".join(f"{statistics.median(t):.1f} s" for t in times) + f" | {other} |", flush=True)

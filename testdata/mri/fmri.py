#!/usr/bin/python3
"""A block design in a simulated functional series, before and after denoising.

    /usr/bin/python3 testdata/mri/fmri.py SUREPIPE

32 x 32 x 8 voxels x 160 volumes: an image, slow drifts with smooth weights, and in a ball of voxels a response to blocks of
20 volumes. t statistics of the response in a regression with constant, drift and response, at each voxel; the false positives
outside of the ball at the nominal 5%, with N - 3 degrees of freedom, and with the number that denoising leaves,
N - 3 - df, df from --df. Needs Debian's python3-numpy, python3-scipy and python3-nibabel.
"""
import os, subprocess, sys, tempfile
import numpy as np
import nibabel as nib
from scipy import stats

program = os.path.abspath(sys.argv[1])
folder = tempfile.mkdtemp()
rng = np.random.default_rng(3)
n, shape = 160, (32, 32, 8)
x, y, z = np.meshgrid(*[np.arange(k) / k for k in shape], indexing="ij")
t = np.arange(n)
block = ((t // 20) % 2).astype(float)
response = np.convolve(block, stats.gamma.pdf(np.arange(12), 4), "full")[:n]
ball = ((x - 0.4) ** 2 + (y - 0.5) ** 2 + (z - 0.5) ** 2 / 2) < 0.02
signal = (800 + 200 * np.sin(6 * x + 3 * y))[..., None] + 10 * (x[..., None] * np.sin(t / 25) + y[..., None] * t / n)
signal = signal + 25 * ball[..., None] * response


def fit(data, df):
    design = np.stack([np.ones(n), t / n, np.sin(t / 25), response], 1)
    inverse = np.linalg.inv(design.T @ design)
    beta = data @ design @ inverse
    rest = ((data - beta @ design.T) ** 2).sum(-1)
    left = np.maximum(n - design.shape[1] - df, 2)
    return beta[..., 3], beta[..., 3] / np.sqrt(rest / left * inverse[3, 3]), left


def report(name, data, df):
    beta, stat, left = fit(data, df)
    p = 2 * stats.t.sf(abs(stat), left)
    print(f"{name:44s} response {beta[ball].mean():6.2f} +- {beta[ball].std():.2f}   median t in the ball "
          f"{np.median(stat[ball]):6.1f}   false positives {100 * np.mean(p[~ball] < 0.05):5.1f}%")


for kind in ("magnitude", "complex"):
    sigma = 25.0
    noise = [rng.standard_normal(signal.shape) * sigma for _ in range(2)]
    re, im = signal + noise[0], noise[1]
    path = lambda name: os.path.join(folder, name)
    save = lambda a, name: nib.Nifti1Image(a.astype(np.complex64 if np.iscomplexobj(a) else np.float32),
                                           np.eye(4)).to_filename(path(name))
    save(np.hypot(re, im) if kind == "magnitude" else re + 1j * im, "y.nii")
    subprocess.run([program, "denoise", path("y.nii"), "--patch", "5", "--stride", "2", "--out", path("x.nii"), "--df",
                    path("df.nii")], check=True, stdout=subprocess.DEVNULL)
    before = np.abs(np.asarray(nib.load(path("y.nii")).dataobj))
    after = np.asarray(nib.load(path("x.nii")).dataobj)
    after = after.real if kind == "complex" else after
    before = before if kind == "magnitude" else re
    df = nib.load(path("df.nii")).get_fdata()
    if kind == "complex":
        df = df / 2  # of the real part
    report(f"{kind}: data", before, 0)
    report(f"{kind}: denoised, N - 4", after, 0)
    report(f"{kind}: denoised, df - 4 (df {df.mean():.1f})", after, n - df)

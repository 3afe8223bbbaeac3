#!/usr/bin/python3
"""A block design in a simulated functional series, before and after denoising.

    /usr/bin/python3 testdata/mri/fmri.py SUREPIPE [32x32x8x160]

Voxels and volumes as named: an image, slow drifts with smooth weights, and in a ball of voxels a response to blocks of
20 volumes. t statistics of the response in a regression with constant, drift and response, at each voxel; the false positives
outside of the ball at the nominal 5%: with N - p degrees of freedom, with the df - p that denoising leaves (--df), and
with the design kept (--keep), also by the standard deviation of --noise. Needs Debian's python3-numpy, python3-scipy and python3-nibabel.
"""
import os, shutil, subprocess, sys, tempfile
import numpy as np
import nibabel as nib
from scipy import stats

program = shutil.which(sys.argv[1]) or os.path.abspath(sys.argv[1])
folder = tempfile.mkdtemp()
rng = np.random.default_rng(3)
*shape, n = (int(k) for k in (sys.argv[2] if len(sys.argv) > 2 else "32x32x8x160").split("x"))
x, y, z = np.meshgrid(*[np.arange(k) / k for k in shape], indexing="ij")
t = np.arange(n)
block = ((t // 20) % 2).astype(float)
response = np.convolve(block, stats.gamma.pdf(np.arange(12), 4), "full")[:n]
ball = ((x - 0.4) ** 2 + (y - 0.5) ** 2 + (z - 0.5) ** 2 / 2) < 0.02
signal = (800 + 200 * np.sin(6 * x + 3 * y))[..., None] + 10 * (x[..., None] * np.sin(t / 25) + y[..., None] * t / n)
signal = signal + 25 * ball[..., None] * response


design = np.stack([np.ones(n), t / n, np.sin(t / 25), response], 1)
inverse = np.linalg.inv(design.T @ design)


def report(name, data, left, sigma=None):
    """A t test with the residual's variance at that many degrees of freedom, or a z test with sigma."""
    beta = data @ design @ inverse
    rest = ((data - beta @ design.T) ** 2).sum(-1)
    stat = beta[..., 3] / np.sqrt((rest / left if sigma is None else sigma ** 2) * inverse[3, 3])
    p = 2 * (stats.t.sf(abs(stat), left) if sigma is None else stats.norm.sf(abs(stat)))
    print(f"| {name} | {beta[ball][:, 3].mean():.1f} | {np.median(stat[ball]):.1f} | {100 * np.mean(p[~ball] < 0.05):.1f}% |", flush=True)


print("| series, degrees of freedom | response | median t | false positives |\n| --- | --- | --- | --- |")
path = lambda name: os.path.join(folder, name)
np.savetxt(path("design.csv"), design, delimiter=",")


def denoise(kind, *more):
    subprocess.run([program, "denoise", path("y.nii"), "--patch", "5", "--stride", "2", "--out", path("x.nii"), "--df",
                    path("df.nii"), "--noise", path("sigma.nii"), *more], check=True, stdout=subprocess.DEVNULL)
    after, df, sigma = (np.asarray(nib.load(path(f)).dataobj) for f in ("x.nii", "df.nii", "sigma.nii"))
    return (after.real, df / 2, sigma) if kind == "complex" else (after, df, sigma)  # of the real part


for kind in ("magnitude", "complex"):
    sigma, p = 25.0, design.shape[1]
    noise = [rng.standard_normal(signal.shape) * sigma for _ in range(2)]
    re, im = signal + noise[0], noise[1]
    y = np.hypot(re, im).astype(np.float32) if kind == "magnitude" else (re + 1j * im).astype(np.complex64)
    nib.Nifti1Image(y, np.eye(4)).to_filename(path("y.nii"))
    report(f"{kind}: data, N - p", y.real, n - p)
    after, df, level = denoise(kind)
    report(f"{kind}: denoised, N - p", after, n - p)
    report(f"{kind}: denoised, df - p (df {df.mean():.0f})", after, np.maximum(df - p, 2))
    after, df, level = denoise(kind, "--keep", path("design.csv"))
    report(f"{kind}: design kept, N - p", after, n - p)
    report(f"{kind}: design kept, df - p (df {df.mean():.0f})", after, np.maximum(df - p, 2))
    report(f"{kind}: design kept, sigma of --noise", after, n - p, level)

#!/usr/bin/python3
"""Total variation with the weight of least SURE: its loss beside the least on the grid of weights, and
its PSNR beside scikit-image's total variation and wavelets at their own automatic weights.

    apt-get install -y --no-install-recommends python3-skimage python3-pywt
    go build ./cmd/surepipe
    /usr/bin/python3 testdata/totalvariation.py ./surepipe

Parts of 256 x 256 pixels of scikit-image's photographs, with noise of 10, 25 and 50 of 255. The sigma
of surepipe is known, or with --auto estimated. scikit-image's denoise_tv_chambolle has its weight by
calibrate_denoiser (Batson and Royer 2019), from 12 weights around the best ones, and BayesShrink
estimates sigma itself. Colours: surepipe's total variation is the vectorial one.
"""
import json, os, resource, subprocess, sys, tempfile
import numpy as np
import skimage
from skimage import img_as_float, io
from skimage.restoration import calibrate_denoiser, denoise_tv_chambolle, denoise_wavelet

program = os.path.abspath(sys.argv[1])
auto = "--auto" in sys.argv
folder = os.path.join(os.path.dirname(skimage.__file__), "data")
names = "camera.png coins.png brick.png gravel.png page.png chelsea.png"


def psnr(error2):
    return 10 * np.log10(1 / error2)


def cpu(who):
    r = resource.getrusage(who)
    return r.ru_utime + r.ru_stime


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    print("| photograph | sigma | lambda | loss, least on the grid | at least SURE | ratio | PSNR | scikit-image's TV | BayesShrink | CPU s, 12 weights | its TV, 12 weights |", flush=True)
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for name in names.split():
        mu = img_as_float(io.imread(os.path.join(folder, name)))
        top, left = [max(0, (n - 256) // 2) for n in mu.shape[:2]]
        mu = mu[top : top + 256, left : left + 256]
        axis = -1 if mu.ndim == 3 else None
        np.save("mu.npy", mu)
        for level in (10, 25, 50):
            sigma = level / 255
            y = mu + sigma * np.random.default_rng(level).standard_normal(mu.shape)
            np.save("y.npy", y)
            command = ["sweep", "--problem", "tv2d", "--data", "y.npy", "--mu", "mu.npy", "--lambda", f"{0.3 * sigma}:{3 * sigma}:12", "--refine", "0", "--tol", "1e-5", "--json"]
            command += ["--sigma2", "auto" if auto else str(sigma**2)] + (["--vectorial"] if axis else [])
            before = cpu(resource.RUSAGE_CHILDREN)
            lines = [json.loads(line) for line in subprocess.run([program] + command, capture_output=True, check=True).stdout.splitlines()]
            ours = cpu(resource.RUSAGE_CHILDREN) - before
            chosen, least = lines[-1]["minimizer"], lines[-1]["least_loss"]
            before = cpu(resource.RUSAGE_SELF)
            weights = list(np.geomspace(0.3 * sigma, 3 * sigma, 12))
            smooth = calibrate_denoiser(y, denoise_tv_chambolle, {"weight": weights, "channel_axis": [axis]})(y)
            theirs = cpu(resource.RUSAGE_SELF) - before
            shrunk = denoise_wavelet(y, method="BayesShrink", rescale_sigma=True, channel_axis=axis, convert2ycbcr=axis is not None)
            print(f"| {name.split('.')[0]} {' x '.join(map(str, mu.shape))} | {level} | {chosen['lambda']:.3g} | {least['loss']:.4g} | {chosen['loss']:.4g} | {chosen['loss'] / least['loss']:.4f} "
                  f"| {psnr(chosen['loss'] / mu.size):.2f} | {psnr(np.mean((smooth - mu) ** 2)):.2f} | {psnr(np.mean((shrunk - mu) ** 2)):.2f} | {ours:.1f} | {theirs:.1f} |", flush=True)

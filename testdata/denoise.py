#!/usr/bin/python3
"""PSNR of surepipe's wavelet-denoise beside scikit-image's wavelet thresholds.

    apt-get install -y --no-install-recommends python3-skimage
    go build ./cmd/surepipe
    /usr/bin/python3 testdata/denoise.py ./surepipe

The photographs are those of scikit-image, with noise of three levels, sigma known to all. Of
scikit-image's colour conversions the better one counts.
"""
import json, os, resource, subprocess, sys, tempfile
import numpy as np
import skimage
from skimage import img_as_float, io
from skimage.restoration import denoise_wavelet

program = os.path.abspath(sys.argv[1])
folder = os.path.join(os.path.dirname(skimage.__file__), "data")
names = "camera.png moon.png coins.png brick.png gravel.png grass.png page.png text.png astronaut.png coffee.png chelsea.png rocket.jpg"


def psnr(a, b):
    return 10 * np.log10(1 / np.mean((a - b) ** 2))


def cpu(who):
    r = resource.getrusage(who)
    return r.ru_utime + r.ru_stime


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    with open("denoise.yaml", "w") as f:
        subprocess.run([program, "spec", "wavelet-denoise"], stdout=f, check=True)
    print("| photograph | sigma | BayesShrink | VisuShrink | surepipe | CPU s, BayesShrink | CPU s, surepipe |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in names.split():
        mu = img_as_float(io.imread(os.path.join(folder, name)))
        if mu.ndim == 3:
            mu = mu[..., :3]
        np.save("mu.npy", mu)
        for sigma in (0.05, 0.1, 0.2):
            y = mu + sigma * np.random.default_rng(1).standard_normal(mu.shape)
            np.save("y.npy", y)
            ways = [dict(channel_axis=-1, convert2ycbcr=c) for c in (False, True)] if mu.ndim == 3 else [{}]

            def best(method):
                return max(psnr(denoise_wavelet(y, sigma=sigma, method=method, rescale_sigma=False, **w), mu) for w in ways)

            before = cpu(resource.RUSAGE_SELF)
            bayes = best("BayesShrink")
            theirs = (cpu(resource.RUSAGE_SELF) - before) / len(ways)
            before = cpu(resource.RUSAGE_CHILDREN)
            run = subprocess.run([program, "run", "--spec", "denoise.yaml", "--data", "y.npy", "--mu", "mu.npy", "--sigma2", str(sigma**2), "--json"], capture_output=True, check=True)
            ours = cpu(resource.RUSAGE_CHILDREN) - before
            result = json.loads(run.stdout)
            size = " x ".join(map(str, mu.shape))
            print(f"| {name.split('.')[0]} {size} | {sigma} | {bayes:.2f} | {best('VisuShrink'):.2f} | {10 * np.log10(result['d'] / result['loss']):.2f} | {theirs:.2f} | {ours:.2f} |", flush=True)

#!/usr/bin/python3
"""Three stacks of images that are not from a scanner, simulated with a truth, denoised by surepipe, and a picture of them.

    /usr/bin/python3 testdata/mri/stacks.py SUREPIPE PICTURE.png [FOLDER]

Calcium imaging: pages of a TIFF file, cells that light up and decay. A hyperspectral cube: .npy with the wavelengths last,
smooth mixtures of four spectra. Thermography: HDF5, a plate that cools over spots. Needs Debian's python3-numpy,
python3-scipy, python3-skimage, python3-h5py and python3-matplotlib. FOLDER keeps the three files (default: a temporary one).
"""
import json, os, shutil, subprocess, sys, tempfile
import h5py
import matplotlib
import numpy as np
import skimage.io
from scipy.ndimage import gaussian_filter
matplotlib.use("Agg")
import matplotlib.pyplot as plt

program, picture = shutil.which(sys.argv[1]) or os.path.abspath(sys.argv[1]), sys.argv[2]
folder, rng, n, size = sys.argv[3] if len(sys.argv) > 3 else tempfile.mkdtemp(), np.random.default_rng(2), 60, 64
y, x = np.mgrid[:size, :size] / size


def spot(width):
    a, b = rng.random(2)
    return np.exp(-((x - a) ** 2 + (y - b) ** 2) / (2 * width ** 2))


def calcium():
    movie = np.zeros((n, size, size)) + 40 * (1 + x)
    for _ in range(25):
        spikes = (rng.random(n) < 0.06).astype(float)
        movie += 60 * np.convolve(spikes, np.exp(-np.arange(n) / 6))[:n, None, None] * spot(0.03)
    return movie, 12.0


def spectra():
    bands = np.linspace(0, 1, n)
    parts = [np.exp(-((bands - c) / w) ** 2) for c, w in ((0.2, 0.1), (0.45, 0.2), (0.7, 0.08), (0.9, 0.3))]
    maps = [gaussian_filter(rng.standard_normal((size, size)), 6) for _ in parts]
    shares = np.exp(30 * np.array(maps))
    return np.einsum("kij,kt->tij", shares / shares.sum(0), parts), 0.08


def heat():
    t = np.arange(n)[:, None, None]
    plate = sum(spot(0.08) * np.exp(-t / rng.uniform(5, 40)) for _ in range(8))
    return 20 + 10 * np.exp(-t / 50) + 3 * plate, 0.8


def write(name, data):
    path = os.path.join(folder, name)
    if name.endswith(".tif"):
        skimage.io.imsave(path, data.astype(np.float32), check_contrast=False)
    elif name.endswith(".npy"):
        np.save(path, np.moveaxis(data, 0, 2))
    else:
        with h5py.File(path, "w") as f:
            f["frames"] = data
    return path


print("| stack | data | denoised | by SURE | sigma, estimated | df |\n| --- | --- | --- | --- | --- | --- |", flush=True)
figure, axes = plt.subplots(3, 4, figsize=(9, 6.8), layout="constrained")
for row, (name, make, more) in zip(axes, (("calcium.tif", calcium, []), ("cube.npy", spectra, ["--series-last"]),
                                          ("heat.h5", heat, []))):
    truth, sigma = make()
    data = truth + sigma * rng.standard_normal(truth.shape)
    out = os.path.join(folder, "out.npy")
    path = write(name, data)
    found = json.loads(subprocess.run([program, "denoise", path, "--out", out, "--json", *more], check=True,
                                      stdout=subprocess.PIPE).stdout)
    clean = np.load(out) if name != "cube.npy" else np.moveaxis(np.load(out), 2, 0)
    os.remove(out)
    rms = lambda a: np.sqrt(np.mean((a - truth) ** 2))
    print(f"| {name} | {rms(data):.3g} | {rms(clean):.3g} | {np.sqrt(max(found['sure_per_coordinate'], 0)):.3g} | "
          f"{sigma:g}, {found['sigma']['mean']:.3g} | {100 * found['df_share']:.2g}% |", flush=True)
    for ax, (title, image) in zip(row, (("data", data[30]), ("denoised", clean[30]), ("truth", truth[30]),
                                        ("removed", data[30] - clean[30]))):
        low, high = np.percentile(truth[30], (0, 100)) if title != "removed" else (-3 * sigma, 3 * sigma)
        ax.imshow(image, cmap="gray", vmin=low, vmax=high)
        ax.set(xticks=[], yticks=[], title=title if row[0] is axes[0][0] else "")
    row[0].set_ylabel(name)
figure.savefig(picture, dpi=80)

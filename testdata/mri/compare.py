#!/usr/bin/python3
"""Denoises simulated and real diffusion series by surepipe and by the field's programs, and prints a table.

    /usr/bin/python3 testdata/mri/compare.py SUREPIPE [FOLDER]
    /usr/bin/python3 testdata/mri/compare.py SUREPIPE --picture PICTURE.png

SUREPIPE is the program; FOLDER keeps the files (default: a temporary one). Needs Debian's python3-numpy, python3-nibabel,
python3-dipy, python3-matplotlib and mrtrix3. The phantom: 36 x 36 x 12 voxels, 6 volumes at b = 0 and 64 directions, two regions of one
tensor that turns, a region where two cross, and one of free water; noise whose standard deviation grows by 3 along x.

Of real series there is no truth and, of those that dipy ships, no second acquisition. They are split: with noise w of the
standard deviation sigma that dwidenoise finds, y + w and y - w have independent noise of variance 2 sigma^2. The first is
denoised and compared with the second, less the variance of its noise.
"""
import os, subprocess, sys, tempfile, time
import resource
import numpy as np
import nibabel as nib


def directions(n):
    """n directions on the half sphere, along a spiral."""
    i = np.arange(n) + 0.5
    z = 1 - i / n
    a = np.pi * (1 + 5 ** 0.5) * i
    r = np.sqrt(1 - z * z)
    return np.stack([r * np.cos(a), r * np.sin(a), z], 1)


def phantom(b, shape=(36, 36, 12)):
    g = np.concatenate([np.zeros((6, 3)), directions(64)])
    bvals = np.concatenate([np.zeros(6), np.full(64, b)])
    x, y, z = np.meshgrid(*[np.arange(k) / k for k in shape], indexing="ij")

    def fibre(angle, tilt):
        d = np.stack([np.cos(angle) * np.cos(tilt), np.sin(angle) * np.cos(tilt), np.sin(tilt)], -1)
        q = np.einsum("xyzk,nk->xyzn", d, g) ** 2
        return np.exp(-bvals * (0.3e-3 + 1.4e-3 * q))

    first, second = fibre(2 * x + y, z - 0.5), fibre(np.pi / 2 + y - x, 0.3 - z)
    water = np.exp(-bvals * 3e-3) * np.ones(shape + (1,))
    blob = np.exp(-(((x - 0.3) ** 2 + (y - 0.6) ** 2) / 0.02))[..., None]
    share = (np.clip((y - 0.35) * 8, 0, 1) * np.clip((x - 0.4) * 8, 0, 1))[..., None] * 0.5
    s = (1 - share) * first + share * second
    s = (1 - blob) * s + blob * water * 1.6
    mask = ((x - 0.5) ** 2 + (y - 0.5) ** 2) < 0.22
    return 100 * s * mask[..., None], mask, g, bvals


def noisy(s, snr, rng, kind):
    shape = s.shape[:3]
    sd = 100 / snr * (0.5 + np.linspace(0, 1, shape[0]))[:, None, None] * np.ones(shape)
    n1 = rng.standard_normal(s.shape) * sd[..., None]
    if kind == "gaussian":
        return s + n1, sd
    n2 = rng.standard_normal(s.shape) * sd[..., None]
    return np.hypot(s + n1, n2), sd


def timed(f):
    a, t = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    s = resource.getrusage(resource.RUSAGE_SELF)
    out = f()
    b, e = resource.getrusage(resource.RUSAGE_CHILDREN), resource.getrusage(resource.RUSAGE_SELF)
    return out, time.time() - t, b.ru_utime - a.ru_utime + e.ru_utime - s.ru_utime


class Methods:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def write(self, y, name="y.nii"):
        path = os.path.join(self.folder, name)
        nib.Nifti1Image(y.astype(np.float32), np.eye(4)).to_filename(path)
        return path

    def surepipe(self, *more):
        out = os.path.join(self.folder, "ours.nii")
        subprocess.run([self.program, "denoise", os.path.join(self.folder, "y.nii"), "--mask",
                        os.path.join(self.folder, "mask.nii"), "--out", out, "--noise",
                        os.path.join(self.folder, "sigma.nii"), *more], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        return nib.load(out).get_fdata()

    def dwidenoise(self):
        out = os.path.join(self.folder, "theirs.nii")
        subprocess.run(["dwidenoise", "-force", "-quiet", "-mask", os.path.join(self.folder, "mask.nii"),
                        os.path.join(self.folder, "y.nii"), out], check=True)
        return nib.load(out).get_fdata()

    def mppca(self, y, mask):
        from dipy.denoise.localpca import mppca
        return np.asarray(mppca(y.astype(np.float32), mask=mask, patch_radius=2))

    def patch2self(self, y, bvals):
        from dipy.denoise.patch2self import patch2self
        return np.asarray(patch2self(y.astype(np.float32), bvals, verbose=False, b0_threshold=50))


def real(m, draws=4):
    """Splits of dipy's series: the mean squared error of one half against the other, less the noise of the other."""
    folder = "/usr/lib/python3/dist-packages/dipy/data/files/"
    rng = np.random.default_rng(5)
    print("split real series: root mean squared error")
    for name, values in (("small_64D.nii", "small_64D.bval"), ("small_101D.nii.gz", "small_101D.bval")):
        y = nib.load(folder + name).get_fdata()
        bvals = np.loadtxt(folder + values).ravel()
        mask = np.ones(y.shape[:3], bool)
        m.write(y)
        m.write(mask.astype(np.float32), "mask.nii")
        noise = os.path.join(m.folder, "n.nii")
        subprocess.run(["dwidenoise", "-force", "-quiet", "-noise", noise, os.path.join(m.folder, "y.nii"),
                        os.path.join(m.folder, "theirs.nii")], check=True)
        sigma = np.median(nib.load(noise).get_fdata())
        errors = []
        for _ in range(draws):
            w = sigma * rng.standard_normal(y.shape)
            a, b = y + w, y - w
            m.write(a)
            methods = (lambda: a, lambda: m.surepipe("--stride", "1"), m.surepipe, m.dwidenoise, lambda: m.mppca(a, mask),
                       lambda: m.patch2self(a, bvals))
            errors.append([np.mean((f() - b) ** 2) - 2 * sigma ** 2 for f in methods])
        mean, bar = np.mean(errors, 0), np.std(errors, 0, ddof=1) / np.sqrt(draws)
        print(f"{name}, sigma {sigma:.3g}".ljust(28) + "".join(
            f"{np.sqrt(max(v, 0)):8.3f} ± {e / (2 * np.sqrt(max(v, 1e-9))):.3f}" for v, e in zip(mean, bar)), flush=True)


def picture(m, path):
    """A slice of the phantom, b = 1000, SNR 10: volumes and maps."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    s, mask, _, _ = phantom(1000)
    y, _ = noisy(s, 10, np.random.default_rng(1), "gaussian")
    m.write(y)
    m.write(mask.astype(np.float32), "mask.nii")
    files = {k: os.path.join(m.folder, k + ".nii") for k in ("df", "risk", "rank", "removed")}
    x = m.surepipe(*[a for k, f in files.items() for a in ("--" + k, f)])
    panels = [("data", y[..., 5, 40], (0, 100)), ("denoised", x[..., 5, 40], (0, 100)), ("truth", s[..., 5, 40], (0, 100)),
              ("data less denoised", (y - x)[..., 5, 40], (-30, 30))]
    for k in ("sigma", "df", "risk", "removed"):
        panels.append((k, nib.load(os.path.join(m.folder, k + ".nii")).get_fdata()[..., 5], None))
    figure, axes = plt.subplots(2, 4, figsize=(9, 4.6), layout="constrained")
    for ax, (title, image, limits) in zip(axes.flat, panels):
        shown = np.where(mask[..., 5], image, np.nan).T
        drawn = ax.imshow(shown, cmap="gray" if limits else "viridis", vmin=limits and limits[0], vmax=limits and limits[1])
        figure.colorbar(drawn, ax=ax, shrink=0.7)
        ax.set(xticks=[], yticks=[], title=title)
    figure.savefig(path, dpi=80)


def main():
    program = os.path.abspath(sys.argv[1])
    if sys.argv[2:3] == ["--picture"]:
        return picture(Methods(program, tempfile.mkdtemp()), sys.argv[3])
    folder = sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp()
    m = Methods(program, folder)
    rng = np.random.default_rng(1)
    print("root mean squared error within the mask; seconds of processor time")
    print(f"{'phantom':28s}{'data':>8s}" + "".join(f"{n:>18s}" for n in
          ("surepipe", "stride 2", "dwidenoise", "mppca", "patch2self")))
    real(m)
    ratios = []
    for kind in ("gaussian", "rician"):
        for b in (1000, 3000):
            for snr in (5, 10, 20):
                s, mask, g, bvals = phantom(b)
                y, sd = noisy(s, snr, rng, kind)
                m.write(y)
                m.write(mask.astype(np.float32), "mask.nii")
                target = s
                if kind == "rician":  # what magnitudes estimate: their mean
                    target = np.mean([noisy(s, snr, rng, kind)[0] for _ in range(200)], 0)
                rmse = lambda x: np.sqrt(np.mean((x - target)[mask] ** 2))
                rows = []
                for f in (lambda: m.surepipe("--stride", "1"), m.surepipe, m.dwidenoise, lambda: m.mppca(y, mask),
                          lambda: m.patch2self(y, bvals)):
                    x, _, cpu = timed(f)
                    rows.append((rmse(x), cpu))
                sigma = nib.load(os.path.join(folder, "sigma.nii")).get_fdata()
                ratios.append(rows[0][0] / min(r[0] for r in rows[2:]))
                print(f"{kind} b {b} SNR {snr}".ljust(28) + f"{rmse(y):8.3f}" + "".join(
                    f"{r[0]:10.3f} {r[1]:5.1f} s" for r in rows) +
                    f"   sigma {100 * np.mean(sigma[mask] / sd[mask] - 1):+.1f}%, rms "
                    f"{100 * np.sqrt(np.mean((sigma[mask] / sd[mask] - 1) ** 2)):.1f}%", flush=True)
    print(f"surepipe over the best of the others: {np.mean(ratios):.3f} on average, {min(ratios):.3f} to {max(ratios):.3f}")


if __name__ == "__main__":
    main()

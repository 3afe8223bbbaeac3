#!/usr/bin/python3
"""Denoises simulated and real diffusion series by surepipe and by the field's programs: tables in Markdown, and a picture.

    /usr/bin/python3 testdata/mri/compare.py SUREPIPE phantom|real|magnitudes|speed|picture [PICTURE.png]

Needs Debian's python3-numpy, python3-nibabel, python3-dipy, python3-matplotlib and mrtrix3. The phantom: 36 x 36 x 12 voxels, 6
volumes at b = 0 and 64 directions, two regions of one tensor that turns, a region where two cross, and one of free water; noise
whose standard deviation grows by 3 along x. localpca is given the true standard deviation, the others estimate it.

Of real series there is no truth and, of those that dipy ships, no second acquisition. They are split: with noise w of the
standard deviation sigma that dwidenoise finds, y + w and y - w have independent noise of variance 2 sigma^2. The first is
denoised and compared with the second, less the variance of its noise.
"""
import os, shutil, subprocess, sys, tempfile, time
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

    def localpca(self, y, mask, sigma):
        from dipy.denoise.localpca import localpca
        return np.asarray(localpca(y.astype(np.float32), sigma=sigma, mask=mask, patch_radius=2))

    def patch2self(self, y, bvals):
        """Its volumes have lost their mean, which is put back: its own shift, to the least value, is off by the noise there."""
        from dipy.denoise.patch2self import patch2self
        x = np.asarray(patch2self(y.astype(np.float32), bvals, verbose=False, b0_threshold=50, shift_intensity=False,
                                  clip_negative_vals=False))
        return x + (y - x).mean((0, 1, 2))


def row(name, *cells):
    print("| " + " | ".join([name, *cells]) + " |", flush=True)


def header(*names):
    row(*names)
    row(*["---"] * len(names))


def cells(values, error="{:.2f}"):
    """The least of all but the first, which is the data, is bold."""
    least = min(values[1:])
    return [("**" + error + "**" if v == least else error).format(v) for v in values]


def said(ratios):
    print(f"\nSquared error of the default over that of the best of the other programs: {np.mean(ratios):.2f} on average, "
          f"{min(ratios):.2f} to {max(ratios):.2f}.", flush=True)


def real(m, draws=4):
    folder = "/usr/lib/python3/dist-packages/dipy/data/files/"
    rng, ratios = np.random.default_rng(5), []
    header("series", "data", "surepipe", "stride 1", "dwidenoise", "mppca", "localpca", "patch2self")
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
            methods = (lambda: a, m.surepipe, lambda: m.surepipe("--stride", "1"), m.dwidenoise, lambda: m.mppca(a, mask),
                       lambda: m.localpca(a, mask, np.full(y.shape[:3], np.sqrt(2) * sigma)), lambda: m.patch2self(a, bvals))
            errors.append([np.mean((f() - b) ** 2) - 2 * sigma ** 2 for f in methods])
        mean, bar = np.mean(errors, 0), np.std(errors, 0, ddof=1) / np.sqrt(draws)
        root = np.sqrt(np.maximum(mean, 1e-9))
        ratios.append(mean[1] / min(mean[3:]))
        row(f"{name} ({' x '.join(map(str, y.shape))})", *[f"{c} ± {e / (2 * r):.2f}" for c, e, r in zip(cells(root), bar, root)])
    said(ratios)


def picture(m, path):
    """A slice of the phantom, b = 1000, SNR 10: volumes and maps."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    s, mask, _, _ = phantom(1000)
    y, _ = noisy(s, 10, np.random.default_rng(1), "gaussian")
    m.write(y)
    m.write(mask.astype(np.float32), "mask.nii")
    files = {k: os.path.join(m.folder, k + ".nii") for k in ("df", "risk", "removed")}
    x = m.surepipe(*[a for k, f in files.items() for a in ("--" + k, f)])
    panels = [("data", y[..., 5, 40], (0, 100)), ("denoised", x[..., 5, 40], (0, 100)), ("truth", s[..., 5, 40], (0, 100)),
              ("data less denoised", (y - x)[..., 5, 40], (-30, 30))]
    for k in ("sigma", "df", "risk", "removed"):
        panels.append((k, nib.load(os.path.join(m.folder, k + ".nii")).get_fdata()[..., 5], None))
    figure, axes = plt.subplots(2, 4, figsize=(9, 4.6), layout="constrained")
    for ax, (title, image, limits) in zip(axes.flat, panels):
        shown = np.where(mask[..., 5], image, np.nan).T
        low, high = limits or np.nanpercentile(shown, (2, 98))
        drawn = ax.imshow(shown, cmap="gray" if limits else "viridis", vmin=low, vmax=high, origin="lower")
        figure.colorbar(drawn, ax=ax, shrink=0.7)
        ax.set(xticks=[], yticks=[], title=title)
    figure.savefig(path, dpi=80)


def settings():
    for b in (1000, 3000):
        for snr in (5, 10, 20):
            yield b, snr, *phantom(b)


def gaussian(m):
    rng, ratios, off = np.random.default_rng(1), [], []
    header("b, SNR", "data", "surepipe", "stride 1", "dwidenoise", "mppca", "localpca", "patch2self")
    for b, snr, s, mask, _, bvals in settings():
        y, sd = noisy(s, snr, rng, "gaussian")
        m.write(y)
        m.write(mask.astype(np.float32), "mask.nii")
        methods = (lambda: y, m.surepipe, lambda: m.surepipe("--stride", "1"), m.dwidenoise, lambda: m.mppca(y, mask),
                   lambda: m.localpca(y, mask, sd), lambda: m.patch2self(y, bvals))
        errors = [np.sqrt(np.mean((f() - s)[mask] ** 2)) for f in methods]
        sigma = nib.load(os.path.join(m.folder, "sigma.nii")).get_fdata()
        off.append((sigma[mask] / sd[mask] - 1))
        ratios.append((errors[1] / min(errors[3:])) ** 2)
        row(f"{b}, {snr}", *cells(errors))
    said(ratios)
    print(f"Sigma is off by {100 * np.mean(off):+.1f}% on average, {100 * np.sqrt(np.mean(np.square(off))):.1f}% root mean square over "
          "voxels.", flush=True)


def magnitudes(m):
    rng = np.random.default_rng(2)
    header("b, SNR", "data", "surepipe", "`--rician`", "complex", "dwidenoise", "mppca")
    for b, snr, s, mask, _, _ in settings():
        sd = noisy(s, snr, rng, "gaussian")[1][..., None]
        z = s + sd * (rng.standard_normal(s.shape) + 1j * rng.standard_normal(s.shape))
        y = abs(z)
        m.write(mask.astype(np.float32), "mask.nii")
        m.write(y)
        phase = m.write(np.angle(z), "phase.nii")
        methods = (lambda: y, m.surepipe, lambda: m.surepipe("--rician"), lambda: m.surepipe("--phase", phase), m.dwidenoise,
                   lambda: m.mppca(y, mask))
        errors, means = [], []
        for f in methods:
            e = (f() - s)[mask]
            errors.append(np.sqrt(np.mean(e ** 2)))
            means.append(np.mean(e))
        row(f"{b}, {snr}", *[f"{c} ({e:+.2f})" for c, e in zip(cells(errors), means)])


def speed(m):
    """Processor seconds and seconds of the clock of 96 x 96 x 19 voxels x 67, one after the other."""
    s, _, _, _ = phantom(1000, (96, 96, 19))
    s = np.concatenate([s[..., :3], s[..., 6:]], -1) + 20  # 67 volumes, no voxel without signal
    y, _ = noisy(s, 15, np.random.default_rng(3), "gaussian")
    m.write(y)
    m.write(np.ones(y.shape[:3], np.float32), "mask.nii")
    header("", "surepipe", "patch 5", "patch 5, stride 1", "dwidenoise")
    results = [timed(f) for f in (m.surepipe, lambda: m.surepipe("--patch", "5"), lambda: m.surepipe("--patch", "5", "--stride", "1"),
                                  m.dwidenoise)]
    row("root mean squared error", *[f"{np.sqrt(np.mean((x - s) ** 2)):.3f}" for x, _, _ in results])
    row("processor time", *[f"{cpu:.0f} s" for _, _, cpu in results])
    row("time", *[f"{wall:.0f} s" for _, wall, _ in results])
    print(f"\nLoad of the machine, of {os.cpu_count()} processors, after it: {os.getloadavg()[0]:.1f}.", flush=True)


def main():
    program, what = shutil.which(sys.argv[1]) or os.path.abspath(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as folder:
        m = Methods(program, folder)
        if what == "picture":
            return picture(m, sys.argv[3])
        {"phantom": gaussian, "real": real, "magnitudes": magnitudes, "speed": speed}[what](m)


if __name__ == "__main__":
    main()

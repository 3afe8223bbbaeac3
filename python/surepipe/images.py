"""Images, series of images and sequences: arrays in, arrays out."""

import warnings

import numpy as np

from ._api import ask, grid_of, is_grid, numbers, request, run, sweep
from ._client import remove, rename, worker
from ._errors import SurepipeError
from ._result import Path
from ._warnings import SurepipeWarning, tell


def _denoised(by, image, sigma2, options, full):
    image = np.asarray(numbers(image))
    options.setdefault("sigma2", "auto" if sigma2 is None else sigma2)
    if image.dtype.kind == "f" and np.isnan(image).any():
        if by != "tv":
            raise ValueError("image has missing pixels, NaN: denoise_tv fills them in")
        options["missing"] = "drop"
    with request(None, {"y": image.astype(float, copy=False), **options}) as r:
        answer, fit = ask(r, "denoise", ["image"], by=by)
    fit.image = fit.image.reshape(image.shape)
    found = Path(answer, fit) if answer.get("points") else fit
    tell(found.warnings, ["missing-values"])
    return (fit.image, found) if full else fit.image


def denoise_wavelet(image, sigma2=None, *, full=False, **options):
    """An image without its noise, by wavelet thresholds that SURE chooses for each level and direction.

    image is (rows, columns) or (rows, columns, 3), in any unit; sigma2 the variance of its noise, which is estimated
    from its smoothest blocks where it is None. With full=True the pair of the image and the `Fit`, which has SURE.
    """
    return _denoised("wavelets", image, sigma2, options, full)


def denoise_tv(image, sigma2=None, *, lam=None, full=False, **options):
    """An image without its noise, by total variation, with the weight of least SURE, or lam.

    image and sigma2 are as of `denoise_wavelet`; missing pixels, NaN or masked, are filled in.
    anisotropic=True and vectorial=True are the variants. With full=True the pair of the image and the `Path`, or with
    lam the `Fit`; both have numbers by name, `found["sigma2"]`.
    """
    return _denoised("tv", image, sigma2, {"lam": lam, **options}, full)


def smooth_trend(y, *, at=None, order=2, method="whittaker", lam=None, sigma2=None, criterion=None, full=False,
                 **options):
    """The trend of a sequence y, in which NaN are gaps that are filled.

    method "whittaker" penalizes squared differences (order 2: Hodrick and Prescott's filter), with the places `at` of
    the values where they are not evenly spaced; "trend1d" the absolute values of differences, for lines (order 1) that
    bend at few places; "tv1d" steps. lam is the weight or a grid; None chooses it by the criterion: leave-one-out for
    whittaker, GCV for the others, SURE where sigma2 is given. With full=True the pair of the trend and the `Path`, or
    at a single weight the `Fit`.
    """
    y = np.asarray(numbers(y), float)
    if y.ndim != 1:
        raise ValueError(f"y has {y.ndim} axes, expected a sequence")
    if criterion is None and sigma2 is None and method == "whittaker":
        criterion = "alo"
    given = {"order": order if method != "tv1d" else None, "sigma2": sigma2, "missing": None, **options}
    seen, places = np.isfinite(y), np.arange(len(y)) if at is None else np.asarray(at, float)
    if not seen.all() and at is not None:
        raise ValueError("y has gaps and places are given: leave the missing values and their places out")
    if not seen.all():
        given["missing"] = "drop"
    if at is not None:
        given["at"] = places
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*\[missing-values\]", category=SurepipeWarning)
        if lam is None or is_grid(grid_of(lam)):
            found = sweep(method, None, y, lam=lam, criterion=criterion, **given)
        else:
            found = run(method, None, y, lam=lam, **given)
    image = (found.fit if isinstance(found, Path) else found).image
    return (image, found) if full else image


def denoise_dwi(series, *, mask=None, sigma=None, noise_scan=None, keep=None, volumes_last=True, full=False, **options):
    """A series of images without its noise, by patches of low rank: diffusion or functional MRI, (x, y, z, volumes).

    sigma is the standard deviation of the noise, a number or a map; None estimates a map. mask is not 0 where voxels
    count; keep a design (volumes, columns) whose part of the series is kept. Options are those of `surepipe denoise`:
    patch="5x5x5", stride="1", shrinkage="hard", threshold="sure", rician=True, noise_volumes="60-63".
    With full=True the triple of the series, maps ("noise", "df", "risk", "rank", "removed"), and the numbers of
    `surepipe denoise --json`.
    """
    w, files = worker(), []
    given = {"data": np.asarray(numbers(series)), "mask": mask, "noise_scan": noise_scan, "keep": keep,
             "sigma": None if sigma is None or np.ndim(sigma) == 0 else sigma}
    if sigma is not None and np.ndim(sigma) == 0:
        options["sigma"] = repr(float(sigma)) if not isinstance(sigma, str) else sigma
    wanted = ["out"] + (["noise", "df", "risk", "rank", "removed"] if full else [])
    try:
        arrays = {k: w.array(np.asarray(a), files) for k, a in given.items() if a is not None}
        answer = w.call("denoise_series", {"arrays": arrays, "series_last": volumes_last, "return": wanted, **options})
        found = {k: w.take(a) for k, a in answer["arrays"].items()}
    except SurepipeError as e:
        rename(e, files)
        raise
    finally:
        remove(files)
    tell(answer["result"].get("warnings"))
    return (found.pop("out"), found, answer["result"]) if full else found["out"]

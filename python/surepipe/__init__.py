"""surepipe: risk estimates for convex-regularized estimators, without the truth and without held-out data.

    Lasso, ElasticNet, Ridge, GroupLasso, Logistic, Multinomial, Poisson, Cox    regressions after scikit-learn's contract
    MatrixCompletion, RobustPCA                                matrices
    denoise_wavelet, denoise_tv, denoise_dwi, smooth_trend     images, series, sequences
    run, sweep, risk, sigma2                                   the command's verbs; any function of Python
"""

from ._api import risk, run, sigma2, sweep
from ._client import Progress, shutdown, worker
from ._errors import Cancelled, InputError, SurepipeError
from ._result import Fit, Path

from .images import denoise_dwi, denoise_tv, denoise_wavelet, smooth_trend
from ._version import VERSION as __version__
from ._warnings import SurepipeDoubt, SurepipeNote, SurepipeWarning

_LATER = {name: "linear" for name in ("Lasso", "ElasticNet", "Ridge", "GroupLasso", "Logistic", "Multinomial",
                                   "Poisson", "Cox")}
_LATER.update(dict.fromkeys(("MatrixCompletion", "RobustPCA"), "matrices"))

__all__ = ["Cancelled", "Fit", "InputError", "Path", "Progress", "SurepipeDoubt", "SurepipeError", "SurepipeNote",
           "SurepipeWarning", "denoise_dwi", "denoise_tv", "denoise_wavelet", "risk", "run", "shutdown", "sigma2", "smooth_trend", "sweep", "worker",
           *_LATER]


def __getattr__(name):
    """Loads what stands on scikit-learn when it is first used: `import surepipe` is quick."""
    if name not in _LATER:
        raise AttributeError(f"module 'surepipe' has no attribute {name!r}")
    from importlib import import_module
    value = getattr(import_module("." + _LATER[name], __name__), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted(__all__)

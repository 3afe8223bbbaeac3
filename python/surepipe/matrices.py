"""Matrices of low rank: completions, and outliers beside them."""

import numpy as np

from ._api import WANTED, grid_of, is_grid, numbers, run, sweep
from ._result import _flat, of_one_weight

try:
    from sklearn.base import BaseEstimator
except ImportError:
    BaseEstimator = object

# The entries of an estimate that comes back whole.
_MOST = 1 << 24
_LARGE = "the matrix has more than 16 million entries: take surepipe run --out and predict"


class _Matrix(BaseEstimator):
    """What both have: a problem, a fit, and what is known of it."""

    def _found(self, problem, Y, grids, **options):
        grids = {k: grid_of(w) for k, w in grids.items()}
        options = {k: v for k, v in {**options, **grids, "sigma2": self.sigma2, **(self.options or {})}.items()
                   if v is not None}
        criterion = None if self.criterion == "auto" else self.criterion
        if any(w is None or is_grid(w) for w in grids.values()):
            self.path_ = sweep(problem, data=Y, criterion=criterion, **options)
            fit, self.criterion_ = self.path_.fit, self.path_.criterion
            self.risk_, self.risk_stderr_ = self.path_.value, self.path_.stderr
            self.warnings_, self.audit_ = self.path_.warnings, self.path_.summary.get("audit")
        else:
            alo = {"alo": True} if criterion == "alo" else {}
            fit = run(problem, data=Y, **{k: v for k, v in options.items() if k not in WANTED}, **alo)
            self.path_, self.warnings_, self.audit_ = None, fit.warnings, fit.get("audit")
            record = _flat(fit.result)
            self.criterion_ = of_one_weight(record, criterion, ("sure", "alo", "gcv"))
            self.risk_, self.risk_stderr_ = record.get(self.criterion_), record.get(f"{self.criterion_}_stderr")
        self.fit_, self.lambda_, self.df_ = fit, float(fit["lambda"]), float(fit["df"])
        return fit


def _names(X):
    """The names of the columns of a data frame, for warnings."""
    return [str(c) for c in X.columns] if hasattr(X, "columns") else None


def _numbers(Y, absent=0.0):
    """The matrix Y; absent is what a sparse one has where it stores no entry."""
    if hasattr(Y, "tocoo"):
        if Y.shape[0] * Y.shape[1] > _MOST:
            raise ValueError(_LARGE)
        stored = Y.tocsr().tocoo()
        Y = np.full(stored.shape, absent)
        Y[stored.row, stored.col] = stored.data
    Y = np.array(numbers(Y), dtype=float)
    if Y.ndim != 2:
        raise ValueError(f"the matrix has {Y.ndim} axes, expected 2")
    return Y


class MatrixCompletion(_Matrix):
    """The missing entries of a matrix, NaN, masked, or not stored in a sparse one: 1/2 sum over the others of
    (B_ij - y_ij)^2 + lambda ||B||_*, with unpenalized effects of rows and columns.

    lam is the weight, a grid, or None to choose it by the criterion: leave-one-out, or SURE where sigma2 is given.
    effects are some of "rows" and "cols", "mean" for a constant alone, "none", or "auto" for those that leave-one-out
    chooses, of which effects_choice_ tells. standardize divides columns by their
    standard deviations, so that lambda_, risk_ and sigma2 are those of the quotients; by default those of a data frame
    where they are in different units, standard deviations more than ten times others, and sigma2 is not given.
    completed_ is the matrix with its gaps filled, estimate_ the estimate of all entries; lambda_, risk_, risk_stderr_,
    df_, path_, fit_, audit_ and warnings_ are as of the regressions.
    """

    def __init__(self, lam=None, *, effects="auto", criterion="auto", sigma2=None, standardize=None,
                 options=None):
        self.lam, self.effects, self.criterion, self.sigma2, self.options = lam, effects, criterion, sigma2, options
        self.standardize = standardize

    def fit(self, X, y=None):
        Y = _numbers(X, np.nan)
        if not np.isnan(Y).any():
            raise ValueError("no entry is missing: there is nothing to complete (of ratings in rows of user, item "
                             "and rating make a table by pivot, or a sparse matrix)")
        for name, axis in (("row", 1), ("column", 0)):
            empty = np.flatnonzero(np.isnan(Y).all(axis=axis))
            if len(empty):
                raise ValueError(f"{name} {empty[0]} has missing entries alone: nothing tells them, leave it out")
        effects = self.effects if isinstance(self.effects, str) else list(self.effects or ()) or "none"
        standardize = "auto" if self.standardize is None and hasattr(X, "columns") else self.standardize
        fit = self._found("matrix-completion", Y, {"lam": self.lam}, effects=effects, standardize=standardize,
                          columns=_names(X))
        self.effects_choice_ = (self.path_.summary if self.path_ else fit).get("effects_choice")
        a = fit.arrays
        if "b" not in a:
            raise ValueError(_LARGE)
        self.estimate_ = (a["b"] + a.get("effects_mean", 0.0) + a.get("effects_rows", np.zeros(1))[:, None]
                          + a.get("effects_cols", np.zeros(1))[None, :]) * a.get("scale", 1.0)
        self.completed_ = np.where(np.isnan(Y), self.estimate_, Y)
        return self

    def fit_transform(self, X, y=None):
        """The matrix with its gaps filled; of a data frame a data frame."""
        completed = self.fit(X).completed_
        if hasattr(X, "columns"):
            return type(X)(completed, index=X.index, columns=X.columns)
        return completed


class RobustPCA(_Matrix):
    """A matrix of low rank and sparse outliers: 1/2 ||L + S - y||^2 + lambda ||L||_* + gamma ||S||_1.

    lam and gamma are the weights, grids, or None to choose both by the criterion (GCV, or SURE where sigma2 is given).
    low_rank_ and sparse_ are the parts; lambda_, gamma_, risk_, risk_stderr_, df_, path_, fit_ and warnings_ are as of
    the regressions. The criterion is about the sum L + S, not about the split.
    """

    def __init__(self, lam=None, gamma=None, *, criterion="auto", sigma2=None, options=None):
        self.lam, self.gamma, self.criterion, self.sigma2, self.options = lam, gamma, criterion, sigma2, options

    def fit(self, X, y=None):
        grids = {"lam": "0.05max:max:8" if self.lam is None else self.lam,
                 "gamma": "0.05max:max:8" if self.gamma is None else self.gamma}
        more = {"refine": 0} if any(is_grid(grid_of(g)) for g in grids.values()) else {}
        fit = self._found("robust-pca", _numbers(X), grids, columns=_names(X), **more)
        self.gamma_ = float(fit["gamma"])
        self.low_rank_, self.sparse_ = fit.b
        return self

    def fit_transform(self, X, y=None):
        """The part of low rank."""
        return self.fit(X).low_rank_

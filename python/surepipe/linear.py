"""Regressions after scikit-learn's contract, each of which chooses its own weight."""

import math

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (_check_sample_weight, check_array, check_is_fitted, check_X_y,
                                      column_or_1d)

from ._api import ask, grid_of, is_grid, labels, numbers, options_of, swept
from ._client import Request
from ._result import Path, _flat, of_one_weight
from ._warnings import SurepipeWarning, tell, warn

try:  # scikit-learn 1.6
    from sklearn.utils.validation import _check_feature_names, _check_n_features
except ImportError:
    _check_feature_names, _check_n_features = BaseEstimator._check_feature_names, BaseEstimator._check_n_features

_GRID = "0.001max:max:20"  # the weights that are looked at by default
_REPEATED = 1 << 28  # bytes of X up to which rows are repeated by weights that are counts
_OF_COPIES = "copies", "correlated-rows"  # warnings that rows repeated by counts set off
_BESIDE = ("mu_hat", "b")  # the arrays of a fit_
# Arrays of several responses.
_NUMBERS = ("coef_", "intercept_", "lambda_", "lambda2_", "df_", "risk_", "risk_stderr_", "optimism_")


class _Regression(BaseEstimator):
    """What the regressions share. Subclasses name the problem and the loss, and say which grids are swept."""

    _problem = _loss = None
    _many = False  # whether y may have several columns
    shared = False  # whether these are one fit

    # What scikit-learn asks

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _validated(self, X, y=None):
        """X, and y where it is given, as numbers."""
        _check_feature_names(self, X, reset=y is not None)
        how = dict(accept_sparse=["csc", "csr"], dtype=[np.float64, np.float32], estimator=self)
        if y is None:
            X = check_array(numbers(X), input_name="X", **how)
        else:
            X, y = numbers(X), numbers(y)
            if not _ready(X, y):
                X, y = check_X_y(X, y, y_numeric=True, ensure_min_samples=2, multi_output=self._many, **how)
        _check_n_features(self, X, reset=y is not None)
        if y is None:
            return X
        return X, column_or_1d(y, warn=True) if self._many and y.ndim == 2 and y.shape[1] == 1 else y

    # The fit

    def fit(self, X, y, sample_weight=None, *, groups=None):
        """Fits to X (d x p) and y (d), at the weight that the criterion chooses or at the one that is given. A regression
        of numbers also takes y (d x m), several responses, each with a weight of its own.

        sample_weight multiplies the loss of each row. Whole numbers are counts: the fit and its criteria are those of
        rows that are repeated as often. Other numbers weigh the loss alone: the criteria of the squared loss then count
        each row once, as observations of equal variance. groups are labels of rows that belong together, such as those
        of a patient: the criterion then is the error of predicting the rows of a new one.
        """
        return self._weighed(*self._validated(X, _required(self, X, y)), sample_weight, groups)

    def _weighed(self, X, y, sample_weight, groups):
        """The fit with weights of the rows, and labels of those that are left out together."""
        beside = {} if groups is None else {"row_groups": _labels("groups", groups, X)}
        if sample_weight is None:
            return self._fit(X, y, **beside)
        w = _weights(sample_weight, X)
        rows, of_copies = np.flatnonzero(w), ()
        if len(rows) < 2:
            raise ValueError(f"sample_weight has {len(rows)} weights above 0, expected at least 2")
        if (w == np.round(w)).all() and w.sum() <= max(_REPEATED / (8 * X.shape[1]), 2 * len(w)):
            rows, of_copies = np.repeat(rows, w[rows].astype(np.int64)), _OF_COPIES
        else:
            beside["weights"] = w
        return self._fit(X[rows], y[rows], but=of_copies, **{k: a[rows] for k, a in beside.items()})

    def _grids(self, X):
        """The weights: numbers, or grids where they are to be chosen."""
        return {"lam": _GRID if self.lam is None else self.lam}

    def _arrays(self, X):
        return {}

    def _fit(self, X, y, but=(), **arrays):
        criterion = None if self.criterion == "auto" else self.criterion
        together = self.shared and np.ndim(y) == 2
        given = {"problem": self._problem, "loss": "mgaussian" if together else self._loss,
                 "intercept": bool(self.fit_intercept) or None,
                 "standardize": self._problem != "ols" and bool(self.standardize) or None, "sigma2": self.sigma2,
                 **(self.options or {})}
        weights = {k: grid_of(w) for k, w in self._grids(X).items()}
        grids = {flag: w for k, flag in (("lam", "lambda"), ("lam2", "lambda2"))
                 if is_grid(w := weights.get(k))}
        given.update({k: w for k, w in weights.items() if {"lam": "lambda", "lam2": "lambda2"}[k] not in grids})
        if not grids and criterion == "alo":
            given["alo"] = True
        names = getattr(self, "feature_names_in_", None)
        named = {} if names is None else {"columns": list(names)}
        with Request(options_of(given), {"X": X, "y": np.asarray(y, float), **self._arrays(X), **arrays}, **named) as r:
            r.several = np.ndim(y) == 2 and not together
            if grids:
                found = swept(r, grids, {"criterion": criterion, "rule": self.rule, "brief": True,
                                         "refine": 4 if self.lam is None else None}, _BESIDE)
            else:
                found = ask(r, "fit", _BESIDE)
                found = [fit for _, fit in found] if r.several else found[1]
        for of in [part for of in (found if r.several else [found]) for part in (of, getattr(of, "fit", of))]:
            of.warnings = [w for w in of.warnings if w["code"] not in but]
        each = [self._found(of, criterion) for of in (found if r.several else [found])]
        if r.several:
            self._take({k: [of.get(k) for of in each] for k in each[0]})
        else:
            self._take(each[0])
            if together:
                self.coef_ = self.coef_.T
        tell(self.warnings_)
        return self

    @staticmethod
    def _found(of, criterion):
        """The attributes of one response."""
        fit = of.fit if isinstance(of, Path) else of
        if of is not fit:
            out = {"path_": of, "criterion_": of.criterion, "risk_": of.value, "risk_stderr_": of.stderr,
                   "optimism_": of.optimism, "audit_": of.summary.get("audit"), "warnings_": of.warnings}
        else:
            record = _flat(fit.result)
            name = of_one_weight(record, criterion, ("lgo", "sure", "gcv", "alo"))
            out = {"path_": None, "criterion_": name, "risk_": record.get(name),
                   "risk_stderr_": record.get(f"{name}_stderr"),
                   "optimism_": math.nan, "audit_": fit.get("audit"), "warnings_": fit.warnings}
        b0 = np.asarray(fit.arrays.get("intercept", 0.0))
        out.update(fit_=fit, coef_=fit.b, intercept_=float(b0.item()) if b0.size == 1 else b0,
                   n_iter_=max(1, fit["solver"]["iterations"]))
        for key, name in (("lambda", "lambda_"), ("lambda2", "lambda2_"), ("df", "df_")):
            if fit.get(key) is not None:
                out[name] = float(fit[key])
        return out

    def _take(self, found):
        """Sets the attributes, of several responses from a list of each."""
        for key, v in found.items():
            if isinstance(v, list) and key == "warnings_" and v and isinstance(v[0], list):
                v = [w for i, w in enumerate(sum(v, [])) if w not in sum(v, [])[:i]]
            elif isinstance(v, list) and key == "n_iter_":
                v = max(v)
            elif isinstance(v, list) and key == "path_" and v[0] is None:
                v = None
            elif isinstance(v, list) and key in _NUMBERS:
                v = np.array([np.nan if x is None else x for x in v], float)
            setattr(self, key, v)

    def _linear(self, X):
        check_is_fitted(self)
        z = self._validated(X) @ self.coef_.T + self.intercept_
        fits = self.fit_ if isinstance(self.fit_, list) else [self.fit_]
        seen = np.column_stack([f.mu_hat for f in fits])
        if seen.shape[1] > 1 and hasattr(self, "classes_"):  # what is added to all classes says nothing
            _beyond(z - z.mean(axis=1, keepdims=True), seen - seen.mean(axis=1, keepdims=True))
        else:
            _beyond(z, seen)
        return z


class _Numbers(RegressorMixin, _Regression):
    """A regression of numbers, of one or several responses."""

    _many = True

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _more_tags(self):
        return {"multioutput": True}

    def predict(self, X):
        """X coef_ + intercept_."""
        return self._linear(X)


_SHARED = """
    Parameters
    ----------
    lam : the weight lambda: None chooses it; a number, a multiple such as "0.1max" of the smallest weight with no
        coefficients, or a grid "0.01max:max:40" to choose from.
    criterion : what is minimized: "auto" (SURE where sigma2 is given; else cross-validation of small wide tables, GCV, or
        leave-one-out for losses that are not squared; of groups leave-group-out), "sure", "gcv", "alo", "cv", "aic" or
        "bic"; of one weight it is the one in risk_, and "cv" takes several.
    rule : "min", or "1se" for the simplest model that cannot be told from the minimum.
    sigma2 : the variance of the noise, "auto" to estimate it, None where it is not known.
    fit_intercept, standardize : an unpenalized intercept; penalize coefficients of columns with standard deviation 1.
    options : a dict of further options of `surepipe run`, such as {"tol": 1e-8}.

    Attributes
    ----------
    coef_, intercept_ : in the units of the columns. With y of d x m, where each response has a weight of its own, coef_
        is m x p; intercept_, lambda_, risk_ and the like are arrays of m, and path_, fit_, criterion_ and audit_ lists.
    lambda_ : the weight, of the loss 1/2 ||X b - y||^2: scikit-learn's alpha is lambda_ / len(y).
    risk_, risk_stderr_, criterion_ : the criterion at the weight, its standard error, and its name.
    optimism_ : by how much risk_ is too small because the weight is the one where it is least, with a plain number or where it is not
        known NaN; what it leaves out is path_.summary["optimism_leaves_out"].
    df_ : degrees of freedom. path_ : the `Path`, None where lam is a number; fit_ : the `Fit`.
    audit_ : fits without some observations beside what the criterion says of them, where they were made.
    warnings_ : what to doubt, a list of {"code", "text"}. feature_names_in_, n_features_in_ : of X.
    """


class _OneWeight(_Numbers):
    """A regression of numbers whose penalty has one weight."""

    def __init__(self, lam=None, *, criterion="auto", rule="min", sigma2=None, fit_intercept=True, standardize=True,
                 options=None):
        self.lam, self.criterion, self.rule, self.sigma2 = lam, criterion, rule, sigma2
        self.fit_intercept, self.standardize, self.options = fit_intercept, standardize, options


class Lasso(_OneWeight):
    __doc__ = "1/2 ||X b - y||^2 + lambda ||b||_1, with the lambda of least estimated risk.\n" + _SHARED
    _problem = "lasso"


class ElasticNet(_Numbers):
    __doc__ = ("1/2 ||X b - y||^2 + lambda ||b||_1 + lambda2/2 ||b||^2, with the weights of least estimated risk.\n"
               + _SHARED + "\n    lam2 is the weight lambda2, as lam; None chooses it among six values.\n")
    _problem = "elastic-net"

    def __init__(self, lam=None, lam2=None, *, criterion="auto", rule="min", sigma2=None, fit_intercept=True,
                 standardize=True, options=None):
        self.lam, self.lam2, self.criterion, self.rule, self.sigma2 = lam, lam2, criterion, rule, sigma2
        self.fit_intercept, self.standardize, self.options = fit_intercept, standardize, options

    def _grids(self, X):
        scale = _squares(X, self.standardize) / X.shape[1]  # a column's sum of squares
        lam2 = f"{1e-3 * scale!r}:{scale!r}:6" if self.lam2 is None else self.lam2
        return {"lam": _GRID if self.lam is None else self.lam, "lam2": lam2}


class Ridge(_OneWeight):
    __doc__ = "1/2 ||X b - y||^2 + lambda/2 ||b||^2, with the lambda of least estimated risk.\n" + _SHARED
    _problem = "ridge"

    def _grids(self, X):
        if self.lam is not None:
            return {"lam": self.lam}
        most = _squares(X, self.standardize)  # at least the largest eigenvalue of X* X
        return {"lam": f"{1e-6 * most!r}:{10 * most!r}:30"}


class GroupLasso(_Numbers):
    __doc__ = ("1/2 ||X b - y||^2 + lambda sum_g sqrt(|g|) ||b_g||, with the lambda of least estimated risk.\n"
               + _SHARED + "\n    groups are the labels of the columns; None has each column for itself. shared : "
               "y of d x m is one fit,\n    the coefficients of all responses one group, with one weight for all.\n")
    _problem = "group-lasso"

    def __init__(self, groups=None, lam=None, *, shared=False, criterion="auto", rule="min", sigma2=None,
                 fit_intercept=True, standardize=True, options=None):
        self.groups, self.shared, self.lam, self.criterion, self.rule, self.sigma2 = \
            groups, shared, lam, criterion, rule, sigma2
        self.fit_intercept, self.standardize, self.options = fit_intercept, standardize, options

    def _arrays(self, X):
        if self.groups is None:
            return {"groups": np.arange(X.shape[1])}
        columns = labels("groups", self.groups, "column")
        if columns.shape != (X.shape[1],):
            raise ValueError(f"groups has {columns.size} labels, expected one for each of the {X.shape[1]} columns")
        return {"groups": columns}


class _Likelihood(_Regression):
    """A regression with a loss of its own, and one of the penalties of the squared loss."""

    def __init__(self, lam=None, *, penalty="lasso", lam2=None, criterion="auto", rule="min", fit_intercept=True,
                 standardize=True, options=None):
        self.lam, self.penalty, self.lam2, self.criterion, self.rule = lam, penalty, lam2, criterion, rule
        self.fit_intercept, self.standardize, self.options = fit_intercept, standardize, options

    sigma2 = None
    _problem = property(lambda self: "ols" if self.penalty == "none" else self.penalty)

    def _grids(self, X):
        if self.penalty == "none":
            return {}
        if self.penalty == "ridge":
            most = _squares(X, self.standardize)
            return {"lam": f"{1e-6 * most!r}:{most!r}:25" if self.lam is None else self.lam}
        return {"lam": _GRID if self.lam is None else self.lam,
                **({} if self.lam2 is None else {"lam2": self.lam2})}


class Poisson(RegressorMixin, _Likelihood):
    __doc__ = ("Counts: exp(z) - y z at z = X b + intercept, with the penalty lambda ||b||_1, or the one of the "
               'problem "ridge", "elastic-net" with lam2, or "none".\n' + _SHARED)
    _loss = "poisson"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def _more_tags(self):
        return {"requires_positive_y": True}

    def predict(self, X):
        """The expected counts, exp(X coef_ + intercept_)."""
        return np.exp(self._linear(X))


class Logistic(ClassifierMixin, _Likelihood):
    __doc__ = ("Two classes: log(1 + exp z) - y z at z = X b + intercept, with the penalty lambda ||b||_1, or the one "
               'of the problem "ridge", "elastic-net" with lam2, or "none".\n' + _SHARED
               + "\n    classes_ : the second is y = 1.\n")
    _loss = "logistic"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _more_tags(self):
        return {"binary_only": True}

    def fit(self, X, y, sample_weight=None, *, groups=None):
        """Fits to X (d x p) and two classes y (d). sample_weight and groups are as of `Lasso.fit`."""
        y = column_or_1d(_required(self, X, y), warn=True)
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        X, codes = self._validated(X, codes)
        if len(classes) != 2:
            few = "1 class" if len(classes) == 1 else f"{len(classes)} classes"
            raise ValueError(f"Only binary classification is supported: y has {few}, expected 2 classes; Multinomial "
                             "takes more")
        if sample_weight is not None and len(np.unique(codes[_weights(sample_weight, X) > 0])) < 2:
            raise ValueError("y has 1 class where sample_weight is above 0, expected 2 classes")
        self.classes_ = classes
        return self._weighed(X, codes, sample_weight, groups)

    def decision_function(self, X):
        """The linear predictor, X coef_ + intercept_."""
        return self._linear(X)

    def predict_proba(self, X):
        """The probabilities of both classes, d x 2."""
        p = 0.5 * (1 + np.tanh(0.5 * self._linear(X)))
        return np.column_stack([1 - p, p])

    def predict(self, X):
        """The class of greater probability."""
        positive = self._linear(X) > 0
        return self.classes_[positive.astype(int)]


class Multinomial(ClassifierMixin, _Likelihood):
    __doc__ = ("Several classes: P(class k) = exp z_k / sum_m exp z_m at z_k = X b_k + intercept_k, with the penalty lambda "
               'sum_k ||b_k||_1, or those of the problems "ridge", "elastic-net" with lam2, or "none".\n' + _SHARED
               + "\n    classes_ : those of the rows of coef_ (K x p) and of intercept_.\n")
    _loss = "multinomial"

    def fit(self, X, y, sample_weight=None, *, groups=None):
        """Fits to X (d x p) and classes y (d). sample_weight and groups are as of `Lasso.fit`."""
        y = column_or_1d(_required(self, X, y), warn=True)
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        X, codes = self._validated(X, codes)
        seen = codes if sample_weight is None else codes[_weights(sample_weight, X) > 0]
        if len(classes) < 2 or len(np.unique(seen)) < len(classes):
            raise ValueError(f"y has {len(classes)} class{'es' * (len(classes) > 1)}, {len(np.unique(seen))} of them where "
                             "sample_weight is above 0, expected at least 2 classes, each with a weight")
        self.classes_ = classes
        self._weighed(X, codes, sample_weight, groups)
        self.coef_ = self.coef_.T
        if not self.fit_intercept:
            self.intercept_ = np.zeros(len(classes))
        return self

    def decision_function(self, X):
        """The linear predictors, X coef_.T + intercept_; of two classes that of the second less that of the first."""
        z = self._linear(X)
        return z[:, 1] - z[:, 0] if len(self.classes_) == 2 else z

    def predict_proba(self, X):
        """The probabilities of the classes, d x K."""
        z = self._linear(X)
        p = np.exp(z - z.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)

    def predict(self, X):
        """The class of greatest probability."""
        z = self._linear(X)
        return self.classes_[z.argmax(axis=1)]


class Cox(_Regression):
    __doc__ = ("Times of events: the proportional hazards h(t) exp(X b), with the penalty lambda ||b||_1, or the one of "
               'the problem "ridge", "elastic-net" with lam2, or "none". ties is "breslow" or "efron".\n' + _SHARED)
    sigma2, fit_intercept = None, False
    _problem, _grids = _Likelihood._problem, _Likelihood._grids
    _loss = property(lambda self: {"breslow": "cox", "efron": "cox-efron"}.get(self.ties, self.ties))

    def __init__(self, lam=None, *, penalty="lasso", lam2=None, ties="efron", criterion="auto", rule="min",
                 standardize=True, options=None):
        self.lam, self.penalty, self.lam2, self.ties, self.criterion = lam, penalty, lam2, ties, criterion
        self.rule, self.standardize, self.options = rule, standardize, options

    def _more_tags(self):
        return {"requires_y": True}

    def fit(self, X, y, sample_weight=None, *, start=None, strata=None, groups=None):
        """Fits to X (d x p) and times.

        y are times of events; or two columns, the time and 1 for an event or 0 for a censored one; or a structured
        array with a field of truth values and one of times, as scikit-survival has it. start are the times from which
        on rows are at risk, strata labels of groups with baseline hazards of their own, sample_weight multiplies the
        rows' terms of the partial likelihood, and groups are as of `Lasso.fit`.
        """
        time, event = _times(_required(self, X, y))
        X, time = self._validated(X, time)
        arrays = {"time": time}
        if start is not None:
            arrays["start"] = column_or_1d(start).astype(float)
        if strata is not None:
            arrays["strata"] = _labels("strata", strata, X)
        if groups is not None:
            arrays["row_groups"] = _labels("groups", groups, X)
        if sample_weight is not None:
            arrays["weights"] = _weights(sample_weight, X)
            rows = arrays["weights"] > 0
            X, event, arrays = X[rows], event[rows], {k: a[rows] for k, a in arrays.items()}
        return self._fit(X, event, **arrays)

    def predict(self, X):
        """The logarithm of the hazard, X coef_: the greater, the sooner the event."""
        return self._linear(X)

    def score(self, X, y):
        """Harrell's concordance: the share of pairs of which the one with the greater hazard has its event first."""
        time, event = _times(y)
        hazard, right, pairs = self.predict(X), 0.0, 0
        for i in np.flatnonzero(event):
            later = (time > time[i]) | (time == time[i]) & (event == 0)
            right += (hazard[i] > hazard[later]).sum() + 0.5 * (hazard[i] == hazard[later]).sum()
            pairs += later.sum()
        return right / pairs if pairs else 0.5


def _ready(X, y):
    """Whether X and y are what check_X_y would make of them, which it takes longer to say."""
    return (type(X) is np.ndarray and type(y) is np.ndarray and X.dtype == np.float64 and y.dtype.kind in "fiu"
            and X.ndim == 2 and y.ndim == 1 and len(X) == len(y) > 1 and X.shape[1] > 0
            and math.isfinite(X.sum()) and math.isfinite(y.sum()))  # a sum of numbers that overflows is looked at


def _weights(sample_weight, X):
    """Weights of the rows as numbers of at least 0."""
    w = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (w < 0).any():
        raise ValueError(f"sample_weight has the value {w.min():g}, expected numbers of at least 0")
    return w


def _labels(name, given, X):
    """Labels of the rows as whole numbers."""
    given = column_or_1d(given)
    if len(given) != X.shape[0]:
        raise ValueError(f"{name} has {len(given)} labels, expected one for each of the {X.shape[0]} rows")
    return labels(name, given)


def _times(y):
    """Times, and 1 for an event or 0 for a censored one."""
    names = getattr(getattr(y, "dtype", None), "names", None)
    if names is not None:
        kinds = {y.dtype[n].kind: n for n in names}
        if len(names) != 2 or "b" not in kinds or len(kinds) != 2:
            raise ValueError(f"y has the fields {', '.join(names)}, expected a field of truth values and one of times")
        return np.asarray(y[next(n for k, n in kinds.items() if k != "b")], float), y[kinds["b"]].astype(float)
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 2:
        event = y[:, 1].astype(float)
        if not np.isin(event, (0, 1)).all():
            raise ValueError("the second column of y has other values than 0 and 1, expected 1 for an event")
        return y[:, 0].astype(float), event
    y = column_or_1d(y, warn=True)
    return y, np.ones(len(y))


def _beyond(z, seen):
    """Warns of linear predictors farther beyond those of the fit's own data, d x m, than these are from each other."""
    width, z = np.ptp(seen, axis=0), z.reshape(len(z), -1)
    out = np.maximum(z - seen.max(axis=0), seen.min(axis=0) - z) > np.maximum(width, 1e-6 * np.abs(seen).max())
    if rows := int(out.any(axis=1).sum()):
        warn(SurepipeWarning(f"{rows} of {len(z)} rows are predicted farther beyond the fit's own data than these are "
                             "from each other: what is known of the error of a prediction is not for them; look for "
                             "columns in other units, and for missing values that are numbers", "beyond-data"))


def _required(e, X, y):
    """y, with a warning where X and y, as frames, name the same rows in another order: they are matched by position."""
    if y is None:
        raise ValueError(f"{type(e).__name__} requires y to be passed, but the target y is None")
    of_x, of_y = getattr(X, "index", None), getattr(y, "index", None)
    if (hasattr(of_x, "equals") and hasattr(of_y, "equals") and len(of_x) == len(of_y) and not of_x.equals(of_y)
            and of_x.is_unique and of_y.isin(of_x).all()):
        warn(SurepipeWarning("X and y have the same row labels in another order, and rows are matched by position: "
                             "y.loc[X.index] is y in the order of X", "row-order"))
    return y


def _squares(X, standardize):
    """The sum of squares of the entries of X with centered, or standardized, columns."""
    if standardize:
        return float(X.shape[0] * X.shape[1])
    mean = np.asarray(X.mean(axis=0)).ravel()
    total = X.multiply(X).sum() if hasattr(X, "multiply") else np.einsum("ij,ij->", X, X)
    return max(float(total - X.shape[0] * mean @ mean), np.finfo(float).tiny)

"""The command's verbs for Python: run, sweep, risk, sigma2."""

import math
import os

import numpy as np

from ._client import Request
from ._result import Fit, Path
from ._warnings import tell

# Names of flags that are words of Python, or too long to write in a notebook.
FLAGS = {"lam": "lambda", "lam2": "lambda2", "lambda_": "lambda"}
ARRAYS = ("X", "y", "D", "mu", "indices", "shape", "groups", "weights", "at", "offset", "exposure", "trials", "time",
          "start", "strata", "factors", "lower", "upper", "row_groups")
RULES = ("factors", "lower", "upper")
FILES = ARRAYS[:ARRAYS.index("groups")] + ("at",)  # of the others a text is a column, or a rule for columns
WANTED = ("criterion", "rule", "refine", "chain", "audit")


def options_of(given):
    """Options by the names of flags: trace_error is --trace-error, None is not given."""
    out = {}
    for key, v in given.items():
        if v is None:
            continue
        if isinstance(v, np.generic):
            v = v.item()
        if isinstance(v, (tuple, np.ndarray)):
            v = list(v)
        if isinstance(v, os.PathLike):
            v = os.path.abspath(v)
        if isinstance(v, float) and not math.isfinite(v):
            v = str(v)  # JSON has no infinity
        out[FLAGS.get(key, key.replace("_", "-"))] = [str(x) for x in v] if isinstance(v, list) else v
    return out


def request(problem, given, black_box=None):
    """The request of a problem: arrays, a table or a file, and options."""
    arrays = {k: given.pop(k) for k in ARRAYS if _is_array(k, given.get(k))}
    for k in FILES:
        if isinstance(given.get(k), (str, os.PathLike)):
            given[k] = os.path.abspath(given[k])
    if "groups" in arrays and (problem not in (None, "group-lasso") or black_box):
        arrays["row_groups"] = labels("groups", arrays.pop("groups"))  # of the observations, not of the columns
    data, table, more = given.pop("data", None), None, {}
    if "columns" in given:
        more["columns"] = given.pop("columns")
    if hasattr(data, "to_csv"):
        table = data
        if "row_groups" in arrays:
            given["groups"] = "row_groups"
            table = table.assign(row_groups=arrays.pop("row_groups"))
    elif isinstance(data, (str, os.PathLike)):
        given["data"] = os.path.abspath(data)
    elif data is not None:
        arrays["y"] = data
    if hasattr(arrays.get("X"), "columns"):
        more["columns"] = [str(c) for c in arrays["X"].columns]
        arrays["X"] = np.asarray(numbers(arrays["X"]), float)
    if given.get("spec") is not None and "\n" in str(given["spec"]):
        more["spec"] = given.pop("spec")
    if problem is not None:
        given["problem"] = problem
    if isinstance(given.get("response"), (list, tuple)):
        given["response"] = ",".join(map(str, given["response"]))
    design = arrays.get("X", given.get("X")) is not None
    several = "," in str(given.get("response")) or design and np.ndim(arrays.get("y")) == 2
    r = Request(options_of(given), {k: _plain(a) for k, a in arrays.items()}, black_box, **more)
    if table is not None:
        path = os.path.join(r.worker.folder, r.name + ".csv")
        r.files.append(path)
        table.to_csv(path, index=False)
        r.frame = path, table.index
        r.question["options"]["data"] = path
    r.several = several
    return r


def _is_array(name, value):
    """Whether a value is an array: not a path, a column's name, or numbers and texts that are rules for columns."""
    if value is None or isinstance(value, (str, os.PathLike)):
        return False
    return name in FILES or np.ndim(value) > 0 and not (name in RULES and np.asarray(value).dtype.kind in "US")


def labels(name, values, of="row"):
    """Labels of rows or columns, any values, as whole numbers."""
    values = np.asarray(values)
    if values.dtype.kind in "fO" and any(v is None or type(v).__name__ in ("NAType", "NaTType") or v != v
                                         for v in values.ravel()):
        raise ValueError(f"{name} has missing labels, expected one for each {of}")
    return np.unique(values, return_inverse=True)[1]


def numbers(X):
    """A pandas frame or series of numbers as the array that it is, which scikit-learn checks in a tenth of the time,
    and a masked array with NaN where it is masked; others as they are. Of a frame the first column that has other
    values is named."""
    if np.ma.isMaskedArray(X):
        return X.astype(float).filled(np.nan)
    if not (hasattr(type(X), "dtypes") and hasattr(type(X), "iloc")):
        return X
    blocks = getattr(getattr(X, "_mgr", None), "blocks", ())  # X.dtypes takes ten times as long to say it
    if len(blocks) == 1 and isinstance(blocks[0].dtype, np.dtype) and blocks[0].dtype.kind in "iuf":
        return X.to_numpy()
    types = [X.dtype] if X.ndim == 1 else list(X.dtypes)
    kinds = [getattr(t, "kind", "") for t in types]
    if kinds and all(k in ("i", "u", "f") for k in kinds):
        if all(isinstance(t, np.dtype) for t in types):
            return X.to_numpy()
        if not any(hasattr(t, "fill_value") for t in types):  # pandas' own numbers, which have NA; not its sparse ones
            return X.to_numpy(dtype=float, na_value=np.nan)
    for i in range(len(kinds) if X.ndim == 2 else 0):
        column = X.iloc[:, i] if kinds[i] not in ("i", "u", "f", "b") else None
        try:
            column is None or column.astype(float)
        except (TypeError, ValueError):
            raise ValueError(f"the column {X.columns[i]!r} of X holds {column.iloc[0]!r}, expected numbers: "
                             "pandas.get_dummies(X) makes columns of 0 and 1 of categories") from None
    return X


def _plain(a):
    a = numbers(a)
    if hasattr(a, "to_numpy"):
        return a.to_numpy()
    return a if isinstance(a, np.ndarray) or hasattr(a, "tocsc") else np.asarray(a)


def ask(r, method, beside=(), **wanted):
    """The answer to a request and its fit, whose arrays are in a file, or those named beside in the answer. Of several
    responses it is a list of such pairs."""
    wanted = {k: v for k, v in wanted.items() if v is not None}
    if beside or r.several:
        beside = list(beside or ("mu_hat", "b"))
        answer = r.ask(method, **{"return": beside}, **wanted)
        if "responses" in answer:
            return [(of, _fit(r, of, beside)) for of in answer["responses"]]
        return answer, _fit(r, answer, beside)
    out = os.path.join(r.worker.folder, r.name + "-fit.npz")
    r.files.append(out)
    answer = r.ask(method, out=out, **wanted)
    with np.load(out) as z:
        arrays = {k: z[k] for k in z.files if k != "fit"}
    return answer, Fit(answer, arrays)


def _fit(r, answer, beside):
    """The fit of an answer with its arrays beside it."""
    arrays = {k: r.worker.take(answer[k]) for k in beside if k in answer}
    b0 = answer["result"].get("intercept", answer["result"].get("intercepts"))
    if b0 is not None:
        arrays["intercept"] = np.atleast_1d(b0)
    return Fit(answer, arrays)


def told(found, but=()):
    """What has been found, a fit, a path or a list of these, after its warnings."""
    each, seen = found if isinstance(found, list) else [found], []
    for of in each:
        seen += [w for w in of.warnings if w not in seen]
    tell(seen, but)
    return found


def run(problem=None, X=None, y=None, *, coefficients=False, audit=None, **options):
    """One estimate with its risk, as `surepipe run`: a `Fit`.

    problem is a name such as "lasso" ("surepipe run --help" lists them), or spec= the text or the path of a
    specification. Several responses, y of shape (d, m) or response=["a", "b"], give a list with a fit of each. The data
    are arrays X, y, indices, shape, at, weights, offset, groups, ..., or data=, a pandas data frame with
    response="column", an array, or the path of a file. Options have the names of the command's flags, with _ for -;
    lam, lam2 and gamma are the weights.
    """
    with request(problem, {"X": X, "y": y, **options}) as r:
        found = ask(r, "fit", coefficients=coefficients, audit=audit)
    return told([fit for _, fit in found] if isinstance(found, list) else found[1])


def grid_of(weights):
    """The grid of a list or an array of weights, FROM:TO:COUNT or a list; a number and a text are as they are."""
    if np.ndim(weights) != 1:
        return weights.item() if isinstance(weights, np.ndarray) and weights.ndim == 0 else weights
    at = np.sort(np.asarray(weights, float))
    if len(at) < 2 or not at[0] > 0 or not np.isfinite(at).all():
        raise ValueError("the grid must have at least two positive weights")
    if np.allclose(np.geomspace(at[0], at[-1], len(at)), at, rtol=1e-6, atol=0):
        return f"{float(at[0])!r}:{float(at[-1])!r}:{len(at)}"
    return ",".join(repr(float(w)) for w in at)


def is_grid(weights):
    return isinstance(weights, str) and (":" in weights or "," in weights)


def grids_of(given):
    """Takes the grids, texts or arrays, out of options."""
    names = (("lam", "lambda"), ("lam2", "lambda2"), ("gamma", "gamma"))
    given.update({k: grid_of(given[k]) for k, _ in names if k in given})
    return {flag: given.pop(k) for k, flag in names if is_grid(given.get(k))}


def swept(r, grids, wanted, beside=(), coefficients=False):
    """The path of a request, or those of several responses."""
    found = ask(r, "sweep", beside, coefficients=bool(coefficients), path=coefficients == "path" or None,
                **grids, **wanted)
    paths = [Path(answer, fit, r.worker.take(answer["path"]) if "path" in answer else None)
             for answer, fit in (found if isinstance(found, list) else [found])]
    return paths if isinstance(found, list) else paths[0]


def sweep(problem=None, X=None, y=None, *, coefficients=False, sigma2=None, **options):
    """A path of weights and the choice among them, as `surepipe sweep`: a `Path`.

        sweep("lasso", X, y, lam="0.01max:max:40")
        sweep("lasso", data=frame, response="price", lam="0.01max:max:40", criterion="alo", rule="1se")
        sweep(f, np.geomspace(0.01, 1, 20), y, sigma2=1)

    The first two are those of `run`, with grids for one or two weights, FROM:TO:COUNT or arrays of increasing
    weights; criterion, rule, refine, chain and audit are as the command's. coefficients=True has those of the chosen point
    with their errors, "path" those of all points too (`Path.coefficients`). In the third f is any function f(y, weight)
    that returns an estimate of the mean of y, in its shape, and the second argument the weights.
    """
    wanted = {k: options.pop(k, None) for k in WANTED}
    if callable(problem):
        return _sweep_of(problem, X, y, sigma2, wanted, options)
    given = {"X": X, "y": y, "sigma2": sigma2, **options}
    grids = grids_of(given)
    with request(problem, given) as r:
        path = swept(r, grids, wanted, coefficients=coefficients)
    gcv = any(of.criterion == "gcv" for of in (path if isinstance(path, list) else [path]))
    return told(path, () if gcv else ("gcv-leverages",))


def _called(f, y, weights):
    """f as the worker calls it: with a vector, in the shape of y, at the weights that are given."""
    shape = y.shape

    def estimate(v, at):
        mu = np.asarray(f(np.array(v).reshape(shape), *(at[k] for k in weights)), float)
        if mu.shape != shape:
            raise ValueError(f"the function returned an array of the shape {mu.shape}, expected that of y, {shape}")
        return mu.ravel()
    return estimate


def risk(f, y, *weights, sigma2, **options):
    """The risk of any function f(y) that estimates the mean of y, from its values alone: a `Fit`.

    y is an array of any shape with noise of the variance sigma2, a number or "auto" (an image's smoothest blocks).
    f is called with perturbed copies of y, about as often as queries= says, with the weights after it: at most three
    numbers. divergence="antithetic" is for functions that jump.
    """
    y = np.asarray(numbers(y), float)
    names = ["lambda", "lambda2", "gamma"][:len(weights)]
    given = {"y": y, "sigma2": sigma2, **dict(zip(names, map(float, weights))), **options}
    with request(None, given, _called(f, y, names)) as r:
        fit = ask(r, "risk", ["mu_hat"])[1]
    fit.mu_hat = fit.image = fit.mu_hat.reshape(y.shape)
    tell(fit.warnings)
    return fit


def _sweep_of(f, grid, y, sigma2, wanted, options):
    y = np.asarray(numbers(y), float)
    with request(None, {"y": y, "sigma2": sigma2, **options}, _called(f, y, ["lambda"])) as r:
        path = swept(r, {"lambda": grid_of(grid)}, wanted, ["mu_hat"])
    path.fit.mu_hat = path.fit.image = path.fit.mu_hat.reshape(y.shape)
    tell(path.warnings)
    return path


def sigma2(y, method="auto", **options):
    """An estimate of the variance of the noise: a dict with sigma2, its relative standard error, and the method."""
    with request(None, {"y": y, "sigma2": method, **options}) as r:
        return r.ask("sigma2")

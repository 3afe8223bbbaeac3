"""Paths and fits as data frames, pictures and HTML; functions of Python; the command's digits."""

import html.parser
import json
import os
import subprocess

import numpy as np
import pytest

import surepipe
import surepipe.linear

rng = np.random.default_rng(4)


class Tags(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.seen, self.text, self.open = [], "", []
        self.feed(text)
        assert self.open == [], self.open

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def path():
    X = rng.normal(size=(80, 12))
    return surepipe.sweep("lasso", X, X[:, 0] + rng.normal(size=80), lam="0.01max:max:20", intercept=True, sigma2=1.0,
                          coefficients=True)


def test_a_path_is_a_data_frame(path):
    pd = pytest.importorskip("pandas")
    frame = path.frame()
    assert isinstance(frame, pd.DataFrame) and len(frame) == len(path.points)
    assert frame["lambda"].is_monotonic_increasing and frame["chosen"].sum() == 1
    chosen = frame[frame["chosen"]].iloc[0]
    assert chosen["sure"] == frame["sure"].min() == path.value and chosen["lambda"] == path.fit["lambda"]
    assert path.fit.coefficients().loc["x0", "estimate"] > 0.3


def test_coefficients_along_a_path():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(rng.normal(size=(60, 4)), columns=["a", "b", "c", "d"])
    y = X["b"] + rng.normal(size=60) + 2
    whole = surepipe.sweep("lasso", X, y, lam="0.05max:max:5", intercept=True, coefficients="path")
    frame = whole.coefficients()
    assert list(frame.columns) == ["(intercept)", "a", "b", "c", "d"] and frame.index.is_monotonic_decreasing
    at = surepipe.run("lasso", X, y, lam=frame.index[2], intercept=True)
    np.testing.assert_allclose(frame.iloc[2, 1:], at.b, rtol=1e-6, atol=1e-9)
    assert frame.iloc[2, 0] == pytest.approx(at["intercept"])
    with pytest.raises(ValueError, match="path"):
        surepipe.sweep("lasso", X, y, lam="0.05max:max:5").coefficients()


def test_a_path_is_drawn(path, tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    ax = path.plot()
    assert ax.get_xscale() == "log" and ax.get_xlabel() == "lambda" and ax.get_ylabel() == "sure"
    ax.figure.savefig(tmp_path / "path.png")


def test_a_path_shows_itself_in_a_notebook(path):
    page = Tags(path._repr_html_())
    assert {"svg", "polyline", "table"} <= set(page.seen)
    assert path.warnings and "relative-weight" not in page.text # it is quiet
    with pytest.warns(surepipe.SurepipeWarning, match="edge-of-grid"):
        edge = surepipe.sweep("lasso", np.eye(9), np.arange(9.0), lam="0.5max:max:4", refine=0, criterion="aic", sigma2=1e-3)
    assert "edge-of-grid" in Tags(edge._repr_html_()).text
    assert f"{path.fit['lambda']:.6g}" in page.text and "sure" in page.text
    assert "lasso" in repr(path) and "sure" in repr(path) and len(repr(path)) < 200
    assert path.optimism > 0 and "too small by" in repr(path) and path.summary["optimism_leaves_out"] in page.text
    two = surepipe.sweep("elastic-net", rng.normal(size=(30, 4)), rng.normal(size=30), lam="0.1max:max:4",
                         lam2="0.1:10:3", refine=0, intercept=True)
    assert two.axes == ["lambda", "lambda2"] and Tags(two._repr_html_()).seen.count("polyline") == 3


def test_hostile_texts_stay_texts(path):
    path.warnings.append({"code": "<b>", "text": "<script>alert(1)</script> '\" \u202e"})
    try:
        page = Tags(path._repr_html_())
    finally:
        path.warnings.pop()
    assert "script" not in page.seen and "b" in page.seen and "<script>alert(1)</script>" in page.text


def soft(y, weight):
    return np.sign(y) * np.maximum(abs(y) - weight, 0)


def test_the_risk_of_a_function_is_that_of_its_closed_form():
    y = np.where(np.arange(2000) % 10 == 0, 4.0, 0.0).reshape(40, 50) + rng.normal(size=(40, 50))
    fit = surepipe.risk(soft, y, 1.5, sigma2=1.0)
    exact = -y.size + (np.minimum(abs(y), 1.5) ** 2).sum() + 2 * (abs(y) > 1.5).sum()
    assert fit["sure"] == pytest.approx(exact, abs=8 * fit["divergence_stderr"] + 1e-6)
    np.testing.assert_array_equal(fit.mu_hat, soft(y, 1.5))
    path = surepipe.sweep(soft, np.geomspace(0.5, 4, 12), y, sigma2=1.0)
    mean = (soft(y, path.fit["lambda"]) == path.fit.mu_hat).mean()
    assert mean == 1 and 1 < path.fit["lambda"] < 2.5
    listed = surepipe.sweep(soft, [1.0, 2.0, 3.0], y, sigma2=1.0)
    assert sorted(p["lambda"] for p in listed.points) == [1, 2, 3]


def test_functions_of_other_packages():
    restoration = pytest.importorskip("skimage.restoration")
    clean = np.zeros((24, 24))
    clean[6:18, 6:18] = 1
    y = clean + 0.2 * rng.normal(size=clean.shape)
    path = surepipe.sweep(lambda y, w: restoration.denoise_tv_chambolle(y, weight=w, eps=1e-5, max_num_iter=200),
                          np.geomspace(0.05, 0.8, 8), y, sigma2=0.04, refine=0)
    losses = [np.sum((restoration.denoise_tv_chambolle(y, weight=w) - clean) ** 2) for w in (0.05, 0.8)]
    assert np.sum((path.fit.mu_hat - clean) ** 2) < min(losses)
    neighbors = pytest.importorskip("sklearn.neighbors")
    x = np.linspace(0, 1, 100)[:, None]
    fit = surepipe.risk(lambda y: neighbors.KNeighborsRegressor(5).fit(x, y).predict(x),
                        np.sin(6 * x[:, 0]) + 0.2 * rng.normal(size=100), sigma2=0.04)
    assert fit["df"] == pytest.approx(20, abs=5 * fit["divergence_stderr"])  # a hundred diagonal entries of 1/5


# What is asked of the command, of Go (cmd/surepipe/doors_test.go) and of Python: the same digits for the same request.
with open(os.path.join(os.path.dirname(__file__), "..", "..", "testdata", "doors.json")) as f:
    CASES = {case.pop("name"): case for case in json.load(f)}
TIMES = ("seconds", "version", "took")


def numbers(v):
    """A JSON value without what depends on the clock, and with options named as arguments are."""
    if isinstance(v, dict):
        return {k: numbers(x) for k, x in v.items() if k not in TIMES}
    if isinstance(v, str):
        return v.replace("--", "")
    return [numbers(x) for x in v] if isinstance(v, list) else v


@pytest.mark.parametrize("name", CASES)
def test_python_gives_the_digits_of_the_command(name, program, testdata):
    verb, problem = CASES[name]["verb"], CASES[name]["problem"]
    options = {**CASES[name]["options"], "data": os.path.join(testdata, CASES[name]["data"])}
    flags = [f"--{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in options.items()]
    text = subprocess.run([program, verb, "--problem", problem, *flags, "--json"], capture_output=True, text=True)
    assert text.returncode in (0, 3), text.stderr
    lines = [json.loads(line) for line in text.stdout.splitlines() if line.startswith("{")] if verb == "sweep" \
        else [json.loads(text.stdout)]
    given = {k: v for k, v in options.items() if k not in ("lambda", "lambda2")}
    weights = {{"lambda": "lam", "lambda2": "lam2"}[k]: v for k, v in options.items() if k in ("lambda", "lambda2")}
    ours = getattr(surepipe, verb)(problem, **weights, **given)
    if isinstance(ours, list):
        assert [numbers(fit.result) for fit in ours] == numbers(lines[0])
    elif verb == "run":
        assert numbers(ours.result) == numbers(lines[0])
    else:
        assert numbers(ours.summary["chosen"]) == numbers(lines[-1]["chosen"])
        theirs = [{k: v for k, v in line.items() if k != "digest"} for line in lines if "index" in line]
        assert numbers(ours.points) == numbers(theirs)


def test_warnings_are_of_the_line_that_asks():
    X = rng.normal(size=(50, 3))
    with pytest.warns(surepipe.SurepipeWarning) as found:
        surepipe.run("lasso", X, X[:, 0] + 100, lam=1.0)
        surepipe.linear.Lasso(fit_intercept=False).fit(X, X[:, 0] + 100)
    assert {os.path.basename(w.filename) for w in found} == {"test_results.py"}
    assert [w.message.code for w in found].count("no-intercept") == 2
    assert {type(w.message) for w in found if w.message.code == "no-intercept"} == {surepipe.SurepipeNote}


def test_numbers_that_are_not_to_be_trusted_are_a_doubt():
    X = rng.normal(size=(50, 8))
    with pytest.warns(surepipe.SurepipeDoubt) as found:
        surepipe.run("lasso", X, X @ np.ones(8) + rng.normal(size=50), lam=0.1, max_iter=1, solver="fista")
    assert "not-converged" in [w.message.code for w in found]

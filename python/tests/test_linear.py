"""The regressions keep scikit-learn's contract, and give the command's digits."""

import json
import pickle
import subprocess
import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import LassoCV, MultiTaskLasso, PoissonRegressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import surepipe
from surepipe.linear import Cox, ElasticNet, GroupLasso, Lasso, Logistic, Multinomial, Poisson, Ridge

ALL = [Lasso(), ElasticNet(), Ridge(), GroupLasso(), Logistic(), Multinomial(), Poisson(), Cox()]


def test_counts_are_not_told_as_copies():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = X[:, 0] + rng.normal(size=300)
    rows = np.repeat(np.arange(300), np.where(np.arange(300) < 150, 1, 2))
    with pytest.warns(surepipe.SurepipeWarning, match="copies"):
        repeated = Ridge().fit(X[rows], y[rows])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        counted = Ridge().fit(X, y, sample_weight=np.bincount(rows))
    assert not {"copies", "correlated-rows"} & {w["code"] for w in counted.warnings_ + counted.path_.fit.warnings}
    assert counted.risk_ == repeated.risk_ == counted.path_["gcv"]


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(ALL)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True, as_frame=True, scaled=False)


def test_lasso_at_a_weight_is_scikit_learns(diabetes):
    X, y = diabetes
    from sklearn.linear_model import Lasso as Referee
    Z = StandardScaler().fit(X)
    ours = Lasso(300.0).fit(X, y)
    theirs = Referee(alpha=300.0 / len(y), tol=1e-10, max_iter=100000).fit(Z.transform(X), y)
    np.testing.assert_allclose(ours.coef_ * Z.scale_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(Z.transform(X)), rtol=1e-6)


def test_poisson_and_logistic_at_a_weight_are_scikit_learns():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, 4))
    counts = rng.poisson(np.exp(0.3 * X[:, 0] + 1))
    ours = Poisson(10.0, penalty="ridge", standardize=False).fit(X, counts)
    theirs = PoissonRegressor(alpha=10.0 / 200, tol=1e-10, max_iter=1000).fit(X, counts)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-5)
    from sklearn.linear_model import LogisticRegression
    yes = np.where(counts > 2, "many", "few")
    ours = Logistic(5.0, penalty="ridge", standardize=False).fit(X, yes)
    theirs = LogisticRegression(C=1 / 5.0, solver="newton-cholesky", tol=1e-10, max_iter=1000).fit(X, yes)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
    assert list(ours.classes_) == ["few", "many"] and (ours.predict(X) == theirs.predict(X)).all()


def test_the_weight_is_chosen_as_well_as_by_cross_validation(diabetes):
    X, y = diabetes
    ours = cross_val_score(Lasso(), X, y, cv=5, scoring="neg_mean_squared_error").mean()
    theirs = cross_val_score(make_pipeline(StandardScaler(), LassoCV()), X, y, cv=5,
                             scoring="neg_mean_squared_error").mean()
    assert ours > 1.01 * theirs  # both are negative


def test_a_fit_says_what_it_knows(diabetes):
    X, y = diabetes
    e = Lasso(sigma2="auto").fit(X, y)
    assert e.criterion_ == "sure" and e.risk_stderr_ > 0 and list(e.feature_names_in_) == list(X.columns)
    assert e.lambda_ == e.path_.chosen["lambda"] and e.df_ == e.fit_["df"]
    assert e.risk_ == min(e.path_.column("sure"))
    assert {w["code"] for w in e.warnings_} >= {"relative-weight"}
    simple = Lasso(sigma2="auto", rule="1se").fit(X, y)
    assert simple.df_ <= e.df_ and simple.lambda_ >= e.lambda_
    fixed = Lasso(e.lambda_).fit(X, y)
    assert fixed.path_ is None and fixed.risk_ == pytest.approx(fixed.fit_["gcv"])
    np.testing.assert_allclose(fixed.coef_, e.coef_, rtol=1e-6)


def test_clones_pickles_pipelines_and_searches(diabetes):
    X, y = diabetes
    e = Lasso("0.2max")
    assert clone(e).get_params() == e.get_params()
    again = pickle.loads(pickle.dumps(e.fit(X, y)))
    assert (again.predict(X) == e.predict(X)).all()
    pipe = make_pipeline(PolynomialFeatures(2, include_bias=False), Lasso())
    search = GridSearchCV(pipe, {"lasso__rule": ["min", "1se"], "lasso__criterion": ["gcv", "alo"]}, cv=3, n_jobs=2)
    assert 0.3 < search.fit(X.to_numpy(), y).best_score_ < 0.7


def test_counts_as_weights_are_repeated_rows(diabetes):
    X, y = diabetes[0].to_numpy()[:150], diabetes[1].to_numpy()[:150]
    rng = np.random.default_rng(5)
    w = rng.integers(0, 4, size=len(y))
    high = (y > 120).astype(int)
    for e, response in ((Lasso(), y), (Ridge(), y), (Logistic(penalty="ridge"), high), (Poisson(20.0), y // 20)):
        ours = clone(e).fit(X, response, sample_weight=w)
        theirs = clone(e).fit(np.repeat(X, w, axis=0), np.repeat(response, w))
        np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8)
        assert ours.lambda_ == theirs.lambda_ and ours.risk_ == theirs.risk_
    # At a weight the fit is the same by repeated rows and by weights.
    half = Lasso(30.0, standardize=False).fit(X, y, sample_weight=w / 2)
    whole = Lasso(60.0, standardize=False).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(half.coef_, whole.coef_, rtol=1e-6, atol=1e-9)
    assert half.df_ == pytest.approx(whole.df_)
    with pytest.raises(ValueError, match="at least 0"):
        Lasso().fit(X, y, sample_weight=-np.ones(len(y)))


def test_times_of_events_are_those_of_coxph(testdata):
    pd = pytest.importorskip("pandas")
    d = pd.read_csv(testdata + "/guide/veteran.csv")
    X, y = d[["trt", "karno", "diagtime", "age", "prior"]], d[["time", "status"]].to_numpy(float)
    # coxph(Surv(time, status) ~ trt + karno + diagtime + age + prior, veteran) of survival 3.5-3, and ties = "breslow"
    wanted = {"efron": [0.19305311805, -0.03408448637, 0.0017230262, -0.00388284791, -0.00776409418],
              "breslow": [0.18902525875, -0.03389523117, 0.00148432804, -0.00380173601, -0.00759030064]}
    for ties, b in wanted.items():
        np.testing.assert_allclose(Cox(penalty="none", ties=ties).fit(X, y).coef_, b, rtol=1e-5)
    fields = np.array([(s == 1, t) for t, s in y], dtype=[("event", bool), ("time", float)])
    chosen, e = Cox().fit(X, fields), Cox().fit(X, y)
    assert (chosen.coef_ == e.coef_).all() and chosen.criterion_ == "alo" and 0.68 < e.score(X, y) < 0.74
    assert clone(e).get_params() == e.get_params() and len(e.predict(X)) == len(d)
    twice = Cox(4.0, ties="breslow", standardize=False).fit(X, y, sample_weight=np.full(len(y), 2))
    rows = Cox(4.0, ties="breslow", standardize=False).fit(pd.concat([X, X]), np.concatenate([y, y]))
    np.testing.assert_allclose(twice.coef_, rows.coef_, rtol=1e-5)
    strata = Cox(penalty="none").fit(X[["karno"]], y, strata=d["celltype"])
    np.testing.assert_allclose(strata.coef_, [-0.0356146936], rtol=1e-5)
    with pytest.raises(ValueError, match="truth values"):
        Cox().fit(X, np.array([(1, 2)] * len(d), dtype=[("a", int), ("b", int)]))


def test_sparse_columns_give_the_dense_fit():
    sparse = pytest.importorskip("scipy.sparse")
    X = sparse.random(100, 30, 0.2, random_state=1, format="csr")
    y = X @ np.arange(30.0) + np.random.default_rng(1).normal(size=100)
    dense, ours = Lasso(5.0).fit(X.toarray(), y), Lasso(5.0).fit(X, y)
    np.testing.assert_allclose(ours.coef_, dense.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.predict(X), dense.predict(X.toarray()), atol=1e-6)


def test_groups_go_together(diabetes):
    X, y = diabetes
    groups = ["a", "a", "b", "b", "c", "c", "c", "c", "c", "c"]
    e = GroupLasso(groups).fit(X, y)
    for g in "abc":
        part = e.coef_[np.array(groups) == g]
        assert (part == 0).all() or (part != 0).all()
    with pytest.raises(ValueError, match="groups has 2 labels, expected one for each of the 10 columns"):
        GroupLasso([1, 2]).fit(X, y)


def test_a_grid_is_a_text_or_an_array(diabetes):
    X, y = diabetes
    weights = np.geomspace(1, 100, 10)
    want = Lasso("1:100:10").fit(X, y).lambda_
    for same in (weights, list(weights), tuple(weights[::-1])):
        assert Lasso(same).fit(X, y).lambda_ == want
    assert surepipe.sweep("lasso", X, y, lam=weights, intercept=True, standardize=True, refine=4).lambda_ == want
    chosen = Lasso([5, 20, 30]).fit(X, y)
    assert sorted(p["lambda"] for p in chosen.path_.points) == [5, 20, 30] and chosen.lambda_ in (5, 20, 30)
    with pytest.raises(ValueError, match="at least two positive weights"):
        Lasso([0, 2, 3]).fit(X, y)


def test_bad_parameters_are_named(diabetes):
    X, y = diabetes
    with pytest.raises(surepipe.InputError, match="criterion"):
        Lasso(criterion="magic").fit(X, y)
    with pytest.raises(surepipe.InputError, match="rule"):
        Lasso(rule="2se").fit(X, y)
    with pytest.raises(surepipe.InputError):
        Lasso("0.1min").fit(X, y)
    with pytest.raises(ValueError, match="binary"):
        Logistic().fit(X, np.arange(len(y)) % 3)
    with pytest.raises(surepipe.InputError):
        Poisson().fit(X, -y)


def test_multinomial_at_a_weight_is_scikit_learns():
    X, y = load_iris(return_X_y=True, as_frame=True)
    names = np.array(["a", "b", "c"])[y]
    from sklearn.linear_model import LogisticRegression
    ours = Multinomial(2.0, penalty="ridge", standardize=False).fit(X, names)
    theirs = LogisticRegression(C=1 / 2.0, solver="newton-cg", tol=1e-12, max_iter=1000).fit(X, names)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    assert (ours.predict(X) == theirs.predict(X)).all() and ours.intercept_.shape == (3,)
    assert cross_val_score(Multinomial(), X, y, cv=3).mean() > 0.93
    twice = Multinomial(2.0).fit(X, y, sample_weight=np.full(150, 2))
    np.testing.assert_allclose(twice.coef_, Multinomial(1.0).fit(X, y).coef_, atol=1e-5)
    with pytest.raises(ValueError, match="2 classes"):
        Multinomial().fit(X, np.zeros(150))


def test_a_classifier_of_a_real_table():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    assert cross_val_score(Logistic(), X, y, cv=3).mean() > 0.95


def test_few_rows_with_many_columns_are_cross_validated():
    r = np.random.default_rng(4)
    model = surepipe.Lasso().fit(r.normal(size=(20, 50)), r.normal(size=20))
    assert model.criterion_ == "cv"
    assert 0 < model.risk_stderr_ < model.risk_ and 0 <= model.optimism_ < model.risk_
    assert np.isfinite(model.path_.frame()[["cv", "cv_stderr"]].to_numpy(float)).any()


def test_several_responses_are_each_fitted_alone():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 5))
    Y = X[:, :3] @ rng.normal(size=(3, 2)) + rng.normal(size=(60, 2)) + [1.0, -2.0]
    for e in (surepipe.linear.Lasso(lam="0.05max"), surepipe.linear.Ridge(lam=2.0),
              surepipe.linear.ElasticNet(lam=3.0, lam2=1.0)):
        both = e.fit(X, Y)
        each = [type(e)(**e.get_params()).fit(X, Y[:, k]) for k in range(2)]
        assert both.coef_.shape == (2, 5) and both.predict(X).shape == (60, 2) and both.path_ is None
        for name in ("coef_", "intercept_", "lambda_", "risk_", "risk_stderr_", "df_"):
            np.testing.assert_allclose(getattr(both, name), [getattr(one, name) for one in each], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(both.predict(X), np.column_stack([one.predict(X) for one in each]))
    chosen = surepipe.linear.Lasso().fit(X, Y)
    assert chosen.lambda_.shape == chosen.risk_.shape == chosen.intercept_.shape == (2,) and len(chosen.path_) == 2
    assert chosen.score(X, Y) > 0.3 and {w["code"] for w in chosen.warnings_} >= {"relative-weight"}
    paths = surepipe.sweep("lasso", X, Y, lam="0.05max:max:5", intercept=True, coefficients=True)
    assert [p.fit["response"] for p in paths] == ["y1", "y2"] and list(paths[1].fit.coefficients().index)[1:] == \
        [f"x{j}" for j in range(5)]
    assert surepipe.linear.Lasso(lam=1.0).fit(X, Y[:, :1].ravel()).coef_.shape == (5,)


def test_several_responses_share_their_support():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(80, 6))
    Y = X[:, :2] @ rng.normal(size=(2, 3)) + rng.normal(size=(80, 3)) + [1.0, -2.0, 0.0]
    lam = 12.0
    fit = GroupLasso(lam=lam, shared=True, standardize=False, options={"tol": 1e-11}).fit(X, Y)
    theirs = MultiTaskLasso(alpha=lam * 3**0.5 / 80, tol=1e-12, max_iter=100000).fit(X, Y)
    np.testing.assert_allclose(fit.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(fit.intercept_, theirs.intercept_, atol=1e-6)
    np.testing.assert_allclose(fit.predict(X), theirs.predict(X), atol=1e-6)
    chosen = GroupLasso(shared=True, fit_intercept=False).fit(X, Y - Y.mean(0))
    assert chosen.coef_.shape == (3, 6) and chosen.predict(X).shape == (80, 3) and np.isscalar(chosen.lambda_)
    assert ((chosen.coef_ != 0).any(0) == (chosen.coef_ != 0).all(0)).all()
    assert GroupLasso(lam=1.0, shared=True).fit(X, Y[:, 0]).coef_.shape == (6,)
    together = GroupLasso(shared=True).fit(X, Y, groups=np.arange(80) // 4)
    once = surepipe.run("group-lasso", X, Y, loss="mgaussian", row_groups=np.arange(80) // 4, lam=together.lambda_,
                        intercept=True, standardize=True)
    assert together.criterion_ == "lgo" and once["criteria"]["lgo"] == pytest.approx(together.risk_, rel=1e-6)


def test_rows_of_a_group_are_left_out_together():
    r = np.random.default_rng(8)
    patients = np.repeat(np.arange(30), 6)
    X = r.normal(size=(30, 8))[patients] + 0.1 * r.normal(size=(180, 8))
    y = X[:, 0] + r.normal(size=30)[patients] + 0.2 * r.normal(size=180)
    names = np.array([f"p{i}" for i in patients])
    alone, together = Lasso(criterion="alo").fit(X, y), Lasso().fit(X, y, groups=names)
    assert together.criterion_ == "lgo" and together.risk_ > 1.2 * alone.risk_
    path = surepipe.sweep("lasso", X, y, lam="0.01max:max:20", groups=names, intercept=True, standardize=True, refine=4)
    assert path.criterion == "lgo" and path.value == pytest.approx(together.risk_, rel=0.03)
    refits = Lasso(criterion="cv", options={"folds": 5}).fit(X, y, groups=names)
    assert refits.risk_ == pytest.approx(together.risk_, rel=0.2)
    assert Logistic().fit(X, y > 0, groups=names).criterion_ == "lgo"
    ridge = Ridge(lam=2.0).fit(X, y, groups=names)
    assert (ridge.criterion_, ridge.risk_) == ("lgo", ridge.fit_["criteria"]["lgo"])
    assert Ridge(lam=2.0, criterion="alo").fit(X, y).risk_ > 0
    with pytest.raises(surepipe.InputError, match="criterion is cv, which is not known of one weight: expected gcv"):
        Ridge(lam=2.0, criterion="cv").fit(X, y)
    with pytest.raises(ValueError, match="groups has 3 labels, expected one for each of the 180 rows"):
        Lasso().fit(X, y, groups=[1, 2, 3])
    with pytest.raises(ValueError, match="groups has missing labels"):
        Lasso().fit(X, y, groups=np.where(patients == 3, np.nan, patients))
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X).add_prefix("x").assign(y=y, patient=names)
    table = surepipe.sweep("lasso", data=frame, response="y", groups="patient", lam="0.01max:max:20", refine=4)
    assert table.value == pytest.approx(path.value, rel=1e-6)
    beside = surepipe.sweep("lasso", data=frame.drop(columns="patient"), response="y", groups=list(names), refine=4,
                            lam="0.01max:max:20")
    assert beside.value == table.value


def test_what_stands_beside_the_rows_is_an_array():
    X, y = load_diabetes(return_X_y=True)
    at = dict(loss="poisson", lam=300.0, intercept=True, standardize=True)
    exposure = np.arange(1.0, len(y) + 1)
    fit = surepipe.run("lasso", X, y, exposure=exposure, **at)
    np.testing.assert_allclose(surepipe.run("lasso", X, y, offset=np.log(exposure), **at).b, fit.b, rtol=1e-9)
    bounded = surepipe.run("lasso", X, y, lower=np.zeros(10), lam=30.0, intercept=True, standardize=True)
    np.testing.assert_array_equal(surepipe.run("lasso", X, y, lower=0, lam=30.0, intercept=True, standardize=True).b,
                                  bounded.b)
    assert (bounded.b >= 0).all()


@pytest.mark.parametrize("estimator", [Lasso(lam="0.1max"), Logistic(lam="0.1max"), Multinomial(lam="0.1max")])
def test_rows_beyond_the_data_are_told(estimator):
    X, y = load_iris(return_X_y=True)
    if isinstance(estimator, Logistic):
        X, y = X[:100], y[:100]
    estimator.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator.predict(X)
    with pytest.warns(surepipe.SurepipeWarning, match="3 of 100 rows.*beyond-data"):
        far = X[:100].copy()
        far[:3] *= 1000
        estimator.predict(far)


@pytest.mark.parametrize("estimator", [Lasso(lam="0.1max"), Logistic(lam="0.1max")])
def test_rows_in_another_order_are_told(diabetes, estimator):
    X, y = diabetes
    y = y > 100
    with pytest.warns(surepipe.SurepipeWarning, match="another order.*row-order"):
        estimator.fit(X, y[::-1])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        estimator.fit(X, y)
        estimator.fit(X.set_axis(X.index + 1000), y)
        estimator.fit(X.to_numpy(), y[::-1])
    assert not [w for w in told if "row-order" in str(w.message)]


def test_rules_name_the_columns_of_a_frame(diabetes):
    X, y = diabetes
    at = {"lam": "0.2max", "intercept": True, "standardize": True}
    named = surepipe.run("lasso", X, y, factors="age=0,s[12]=2", lower=["bmi=0"], **at)
    placed = surepipe.run("lasso", X.to_numpy(), y, factors="x0=0,x4=2,x5=2", lower=["x2=0"], **at)
    np.testing.assert_array_equal(named.b, placed.b)
    with pytest.raises(ValueError, match='no column of X has the name or pattern "x0"'):
        surepipe.run("lasso", X, y, factors="x0=0", **at)

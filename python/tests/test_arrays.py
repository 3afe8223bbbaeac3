"""Matrices, images, series and sequences: arrays in, arrays out, nearer to the truth."""

import numpy as np
import pytest

import surepipe

rng = np.random.default_rng(3)
LOW = rng.normal(size=(50, 2)) @ rng.normal(size=(2, 30)) + 5 + rng.normal(size=(50, 1))


def error(a, b):
    return np.mean((a - b) ** 2)


def test_a_completion_fills_gaps():
    Y = LOW + 0.3 * rng.normal(size=LOW.shape)
    gaps = rng.random(Y.shape) < 0.3
    Y[gaps] = np.nan
    e = surepipe.MatrixCompletion().fit(Y)
    assert (e.completed_[~gaps] == Y[~gaps]).all() and error(e.estimate_[gaps], LOW[gaps]) < 0.2
    np.testing.assert_allclose(e.estimate_.ravel()[e.fit_.arrays["indices"]], e.fit_.mu_hat, rtol=1e-9)
    assert e.criterion_ == "alo" and e.risk_ == pytest.approx(error(e.estimate_[gaps], LOW[gaps]) + 0.09, rel=0.5)
    choice = e.effects_choice_
    assert choice["tried"][choice["best"]]["effects"] == (",".join(e.fit_.get("effects", [])) or "none")
    assert surepipe.MatrixCompletion(e.lambda_).fit(Y).effects_choice_ == choice
    fixed = surepipe.MatrixCompletion(e.lambda_, effects=()).fit(Y)
    assert fixed.effects_choice_ is None
    assert fixed.path_ is None and fixed.fit_.get("effects") is None
    assert surepipe.MatrixCompletion(e.lambda_, effects="rows").fit(Y).fit_["effects"] == ["rows"]
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(Y, columns=[f"c{j}" for j in range(30)])
    assert list(surepipe.MatrixCompletion(5.0).fit_transform(frame).columns) == list(frame.columns)
    units = np.logspace(-3, 3, 30)
    with pytest.warns(UserWarning, match="columns are divided by them"):
        scaled = surepipe.MatrixCompletion(1.0).fit(frame * units)
    plain = surepipe.MatrixCompletion(1.0, standardize=True).fit(Y)
    assert scaled.risk_ == pytest.approx(plain.risk_, rel=1e-6)
    np.testing.assert_allclose(scaled.estimate_ / units, plain.estimate_, rtol=1e-5, atol=1e-6)
    with pytest.warns(UserWarning, match="standardize divides columns"):
        surepipe.MatrixCompletion(1.0).fit(Y * units)
    with pytest.warns(UserWarning, match=r'from .* \("c\d"\) to .* \("c2\d"\)'):
        surepipe.MatrixCompletion(1.0, standardize=False).fit(frame * units)
    with pytest.raises(ValueError, match="nothing to complete"):
        surepipe.MatrixCompletion().fit(LOW)


def test_a_matrix_at_one_weight_has_the_criterion_asked_for():
    Y = LOW + 0.3 * rng.normal(size=LOW.shape)
    robust = surepipe.RobustPCA(5.0, 1.0, criterion="gcv").fit(Y)
    assert robust.criterion_ == "gcv" and robust.risk_ == robust.fit_["gcv"]
    Y[rng.random(Y.shape) < 0.3] = np.nan
    for criterion in ("gcv", "alo", "bic"):
        e = surepipe.MatrixCompletion(5.0, criterion=criterion).fit(Y)
        assert e.criterion_ == criterion and e.risk_ == e.fit_[criterion]
    with pytest.raises(surepipe.InputError, match="criterion is cv, which is not known of one weight"):
        surepipe.MatrixCompletion(5.0, criterion="cv").fit(Y)


def test_missing_entries_are_nan_masked_or_not_stored():
    sparse, pd = pytest.importorskip("scipy.sparse"), pytest.importorskip("pandas")
    gaps = rng.random(LOW.shape) < 0.3
    holes = np.where(gaps, np.nan, LOW)
    rows, cols = np.nonzero(~gaps)
    want = surepipe.MatrixCompletion(5.0).fit(holes).estimate_
    for same in (np.ma.array(LOW, mask=gaps), sparse.csr_matrix((LOW[rows, cols], (rows, cols)), LOW.shape),
                 pd.DataFrame(holes).convert_dtypes()):
        np.testing.assert_array_equal(surepipe.MatrixCompletion(5.0).fit(same).estimate_, want)
    with pytest.raises(ValueError, match="16 million"):
        surepipe.MatrixCompletion().fit(sparse.coo_matrix((10**6, 10**5)))
    trend = surepipe.smooth_trend(np.where(gaps[:, 0], np.nan, LOW[:, 0]), lam=10.0)
    np.testing.assert_array_equal(surepipe.smooth_trend(np.ma.array(LOW[:, 0], mask=gaps[:, 0]), lam=10.0), trend)


def test_robust_pca_finds_outliers():
    low = 10 * np.outer(rng.normal(size=30), rng.normal(size=25))
    bad = rng.random(low.shape) < 0.05
    e = surepipe.RobustPCA(lam=3.0, gamma=1.0).fit(low + 20 * bad + 0.1 * rng.normal(size=low.shape))
    assert (e.sparse_[bad] > 10).all() and error(e.low_rank_, low) < 1
    chosen = surepipe.RobustPCA(lam="0.05max:0.5max:3", gamma=1.0, sigma2=0.01).fit(low + 20 * bad)
    assert chosen.criterion_ == "sure" and len(chosen.path_.points) == 3 and chosen.gamma_ == 1


@pytest.mark.parametrize("denoise", [surepipe.denoise_wavelet, surepipe.denoise_tv])
def test_images_are_denoised_in_their_own_units(denoise):
    clean = np.zeros((32, 24))
    clean[8:24, 6:18] = 200
    noisy = clean + 20 * rng.normal(size=clean.shape)
    image, found = denoise(noisy, full=True)
    assert image.shape == clean.shape and error(image, clean) < 0.4 * error(noisy, clean)
    fit = found.fit if isinstance(found, surepipe.Path) else found
    assert fit["sigma2"] == pytest.approx(400, rel=0.5) and fit["sure"] is not None
    scaled = denoise(noisy.clip(0, 255).astype(np.uint8), sigma2=400.0)
    assert scaled.max() > 100  # small integers are numbers, not photographs
    weight = {"lam": 20.0} if denoise is surepipe.denoise_tv else {}
    assert denoise(np.stack([noisy] * 3, axis=2), sigma2=400.0, **weight).shape == (32, 24, 3)


def test_missing_pixels_are_filled():
    clean = np.zeros((32, 24))
    clean[8:24, 6:18] = 200
    noisy, hidden = clean + 20 * rng.normal(size=clean.shape), rng.random(clean.shape) < 0.1
    masked = np.ma.masked_array(noisy, hidden)
    noisy[hidden] = np.nan
    image, found = surepipe.denoise_tv(noisy, 400.0, full=True)
    assert image.shape == clean.shape and np.mean((image - clean)[hidden] ** 2) < 800
    assert found["d"] == np.sum(~hidden)
    assert np.array_equal(image, surepipe.denoise_tv(masked, 400.0))
    colours = surepipe.denoise_tv(np.stack([noisy] * 3, axis=2), 400.0, lam=20.0)
    assert colours == pytest.approx(surepipe.denoise_tv(noisy, 400.0, lam=20.0)[:, :, None] * np.ones(3), abs=0.5)
    with pytest.raises(ValueError, match="missing pixels"):
        surepipe.denoise_wavelet(noisy)


def test_a_large_image_of_small_integers_is_not_scaled():
    noisy = (100 + 10 * rng.normal(size=(1100, 1000))).astype(np.uint8)
    assert surepipe.sigma2(noisy)["sigma2"] == pytest.approx(100, rel=0.2)


def test_trends_with_gaps():
    t = np.linspace(0, 1, 200)
    clean = np.sin(6 * t)
    y = clean + 0.2 * rng.normal(size=200)
    trend, path = surepipe.smooth_trend(y, full=True)
    assert error(trend, clean) < 0.2 * error(y, clean) and path.criterion == "alo"
    y[50:60] = np.nan
    trend = surepipe.smooth_trend(y)
    assert trend.shape == (200,) and error(trend, clean) < 0.01
    at = np.sort(rng.random(200))
    uneven = surepipe.smooth_trend(np.sin(6 * at) + 0.2 * rng.normal(size=200), at=at)
    assert error(uneven, np.sin(6 * at)) < 0.01
    steps = np.repeat([0.0, 3.0, 1.0], 50)
    found = surepipe.smooth_trend(steps + 0.3 * rng.normal(size=150), method="tv1d", sigma2=0.09)
    assert error(found, steps) < 0.03


def test_series_of_images_are_denoised():
    clean = (rng.normal(size=(12 * 12 * 6, 2)) @ rng.normal(size=(2, 30))).reshape(12, 12, 6, 30) + 10
    noisy = clean + 0.5 * rng.normal(size=clean.shape)
    series, maps, numbers = surepipe.denoise_dwi(noisy, full=True)
    assert series.shape == clean.shape and error(series, clean) < 0.2 * error(noisy, clean)
    assert numbers["sigma"]["mean"] == pytest.approx(0.5, rel=0.1) and maps["df"].shape == clean.shape[:3]
    first = surepipe.denoise_dwi(np.moveaxis(noisy, -1, 0), volumes_last=False, sigma=0.5)
    assert first.shape == (30, 12, 12, 6)

"""Writes diabetes.npz and completion.npz from the data that scikit-learn ships.

Run in this directory: python3 make.py (numpy and scikit-learn; no network)."""

import numpy as np
from sklearn.datasets import load_diabetes, load_digits

X, y = load_diabetes(return_X_y=True)
y = y - y.mean()
d, p = X.shape
b = np.linalg.lstsq(X, y, rcond=None)[0]
np.savez_compressed(
    "diabetes.npz", X=X, y=y,
    # The mean took a degree of freedom too.
    sigma2=((y - X @ b) ** 2).sum() / (d - p - 1),
    **{"lambda": 20.0},
)

images = load_digits().data[:300]
rng = np.random.default_rng(1)
indices = np.sort(rng.choice(images.size, size=int(0.4 * images.size), replace=False)).astype(np.int64)
mu = images.ravel()[indices]
sigma = 3.0
np.savez_compressed(
    "completion.npz", y=mu + sigma * rng.standard_normal(mu.size), indices=indices,
    shape=np.array(images.shape, dtype=np.int64), mu=mu, sigma2=sigma**2,
    **{"lambda": 30.0},
)

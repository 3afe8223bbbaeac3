#!/usr/bin/python3
"""Cross-validation of a ridge by scikit-learn, with folds by groups, forward in time and repeated, for
risk/folds and pipeline: python3 testdata/realdata/folds.py > testdata/folds.json

The penalty of a fit is its share of lambda, |kept| / d, as in `sweep --criterion cv`.
"""
import json

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, RepeatedKFold, TimeSeriesSplit

rng = np.random.default_rng(7)
d, p, weights = 66, 4, [0.5, 5.0, 50.0]
x = np.round(rng.standard_normal((d, p)), 6)
groups = np.arange(d) % 11
y = np.round(x @ [1, -2, 0, 0.5] + rng.standard_normal(11)[groups] + rng.standard_normal(d) + 3, 6)


def errors(splits):
    """Mean squared errors over what is left out, at each weight."""
    mean = []
    for w in weights:
        sums, times = np.zeros(d), np.zeros(d)
        for keep, out in splits:
            fit = Ridge(alpha=w * len(keep) / d).fit(x[keep], y[keep])
            sums[out] += (y[out] - fit.predict(x[out])) ** 2
            times[out] += 1
        mean.append(np.mean((sums / np.maximum(times, 1))[times > 0]))
    return mean


# Each group by itself, blocks of six rows one by one, runs of time and single rows are folds that both programs draw.
cases = {
    "groups": errors(list(GroupKFold(11).split(x, y, groups))),
    "blocks": errors(list(GroupKFold(11).split(x, y, np.arange(d) // 6))),
    "time": errors(list(TimeSeriesSplit(10).split(x))),
    "repeated": errors(list(RepeatedKFold(n_splits=d, n_repeats=2, random_state=0).split(x))),
}
print(json.dumps({"x": x.tolist(), "y": y.tolist(), "groups": groups.tolist(), "lambda": weights, "errors": cases}))

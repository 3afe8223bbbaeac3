import numpy as np


def soft_impute(y, seen, weight, start):
    """Soft thresholding of singular values (Mazumder, Hastie and Tibshirani 2010), from start."""
    b = start
    for _ in range(300):
        u, s, v = np.linalg.svd(np.where(seen, y, b), full_matrices=False)
        new = (u * np.maximum(s - weight, 0)) @ v
        change = np.sum((new - b) ** 2) / max(np.sum(b**2), 1e-9)
        b = new
        if change < 1e-6:
            break
    return b

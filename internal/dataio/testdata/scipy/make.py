"""Writes one matrix in every format of scipy. Run in this directory: python3 make.py (numpy, scipy)."""

import numpy as np
import scipy.io
import scipy.sparse

A = np.array([[0, 1.5, 0, -2], [0, 0, 0, 0], [3, 0, 1e-3, 0]])
S = np.array([[1, 0, 2.5], [0, 0, -3], [2.5, -3, 4]])
K = np.array([[0, -1, 0], [1, 0, 7.25], [0, -7.25, 0]])

m = scipy.sparse.csr_matrix(A)
for f in ["csr", "csc", "coo"]:
    scipy.sparse.save_npz(f + ".npz", m.asformat(f))
parts = dict(np.load("csr.npz"))
parts["format"] = np.array("csr")
np.savez("text.npz", **parts)
scipy.sparse.save_npz("dia.npz", m.asformat("dia"))

scipy.io.mmwrite("general.mtx", m)
scipy.io.mmwrite("general_array.mtx", A)
scipy.io.mmwrite("symmetric.mtx", scipy.sparse.coo_matrix(S), symmetry="symmetric")
scipy.io.mmwrite("symmetric_array.mtx", S, symmetry="symmetric")
scipy.io.mmwrite("skew.mtx", scipy.sparse.coo_matrix(K), symmetry="skew-symmetric")
scipy.io.mmwrite("skew_array.mtx", K, symmetry="skew-symmetric")
scipy.io.mmwrite("pattern.mtx", m, field="pattern")
np.savetxt("plain.csv", A, delimiter=",")
np.savetxt("header.csv", A, delimiter=";", header="a;b;c;d")

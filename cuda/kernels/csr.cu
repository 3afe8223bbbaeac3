#include "device.h"

// dst_i = A x_i, the sum along a row of A in the order of the row
KERNEL csr(double *dst, i64 ds, const i64 *indptr, const int *indices, const double *values, const double *x, i64 xs, i64 k, i64 rows) {
  EACH(i, k, r, rows) {
    const double *v = x + i * xs;
    double s = 0;
    for (i64 e = indptr[r]; e < indptr[r + 1]; e++) s += values[e] * v[indices[e]];
    dst[i * ds + r] = s;
  }
}

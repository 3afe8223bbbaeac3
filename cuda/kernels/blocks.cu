#include "device.h"

// the rows of symmetric blocks along a diagonal times x_i: row r is coordinate at[r], in the
// block of size[r] coordinates from low[r] on whose values begin at start[r]. A block is read by its
// columns: neighbouring threads read neighbouring values.
KERNEL blocks(double *dst, i64 ds, const int *at, const int *low, const int *size, const i64 *start, const double *values, const double *x, i64 xs, i64 k, i64 n) {
  EACH(i, k, r, n) {
    const double *v = x + i * xs + low[r], *a = values + start[r] + (at[r] - low[r]);
    const i64 m = size[r];
    double s = 0;
    for (i64 c = 0; c < m; c++) s += a[c * m] * v[c];
    dst[i * ds + at[r]] = s;
  }
}

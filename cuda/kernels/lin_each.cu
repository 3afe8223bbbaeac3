#include "device.h"

// dst_i = a_i x_i + c_i y_i
KERNEL lin_each(double *dst, i64 ds, const double *a, const double *x, i64 xs, const double *c, const double *y, i64 ys, i64 k, i64 n) {
  EACH(i, k, j, n) dst[i * ds + j] = a[i] * x[i * xs + j] + c[i] * y[i * ys + j];
}

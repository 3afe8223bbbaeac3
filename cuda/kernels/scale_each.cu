#include "device.h"

// dst_i = a_i x_i
KERNEL scale_each(double *dst, i64 ds, const double *a, const double *x, i64 xs, i64 k, i64 n) {
  EACH(i, k, j, n) dst[i * ds + j] = a[i] * x[i * xs + j];
}

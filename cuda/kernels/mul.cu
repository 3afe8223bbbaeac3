#include "device.h"

// dst = x ∘ y
KERNEL mul(double *dst, i64 ds, const double *x, i64 xs, const double *y, i64 ys, i64 k, i64 n) {
  EACH(i, k, j, n) dst[i * ds + j] = x[i * xs + j] * y[i * ys + j];
}

#include "device.h"

// dst = a x + c y
KERNEL lin(double *dst, i64 ds, double a, const double *x, i64 xs, double c, const double *y, i64 ys, i64 k, i64 n) {
  EACH(i, k, j, n) dst[i * ds + j] = a * x[i * xs + j] + c * y[i * ys + j];
}

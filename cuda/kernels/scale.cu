#include "device.h"

// dst = a x
KERNEL scale(double *dst, i64 ds, double a, const double *x, i64 xs, i64 k, i64 n) {
  EACH(i, k, j, n) dst[i * ds + j] = a * x[i * xs + j];
}

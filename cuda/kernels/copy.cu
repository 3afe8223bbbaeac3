#include "device.h"

// dst = x
KERNEL copy(double *dst, i64 ds, const double *x, i64 xs, i64 k, i64 n) {
  EACH(i, k, j, n) dst[i * ds + j] = x[i * xs + j];
}

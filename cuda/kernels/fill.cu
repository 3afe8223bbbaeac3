#include "device.h"

// dst = a
KERNEL fill(double *dst, i64 ds, double a, i64 k, i64 n) {
  EACH(i, k, j, n) dst[i * ds + j] = a;
}

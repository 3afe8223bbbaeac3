#include "device.h"

// dst = 1 where lo < v < hi, else 0
KERNEL clamp_mask(double *dst, i64 ds, const double *v, i64 vs, const double *lo, i64 ls, const double *hi, i64 hs, i64 k, i64 n) {
  EACH(i, k, j, n) {
    double x = v[i * vs + j];
    dst[i * ds + j] = lo[i * ls + j] < x && x < hi[i * hs + j] ? 1.0 : 0.0;
  }
}

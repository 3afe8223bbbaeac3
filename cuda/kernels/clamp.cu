#include "device.h"

// dst = min(max(v, lo), hi), NaN if one of the three is
KERNEL clamp(double *dst, i64 ds, const double *v, i64 vs, const double *lo, i64 ls, const double *hi, i64 hs, i64 k, i64 n) {
  EACH(i, k, j, n) {
    double x = v[i * vs + j], l = lo[i * ls + j], h = hi[i * hs + j];
    if (x < l || l != l) x = l;
    if (x > h || h != h) x = h;
    dst[i * ds + j] = x;
  }
}

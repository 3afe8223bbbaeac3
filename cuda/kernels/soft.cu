#include "device.h"

// dst = v minus its projection onto [-t w, t w]; w may be null, for ones. A NaN
// fails both comparisons and stays one.
KERNEL soft(double *dst, i64 ds, const double *v, i64 vs, const double *w, i64 ws, double t, i64 k, i64 n) {
  EACH(i, k, j, n) {
    double c = w ? t * w[i * ws + j] : t, x = v[i * vs + j], p = x;
    if (p < -c) p = -c;
    if (p > c) p = c;
    dst[i * ds + j] = x - p;
  }
}

#include "device.h"

// dst = t w/q^(3/2) where sqrt(q) > t w > 0, else 0; w may be null, for ones. In
// this order nothing underflows: c/norm lies between 0 and 1.
KERNEL shrink_slope(double *dst, i64 ds, const double *q, i64 qs, const double *w, i64 ws, double t, i64 k, i64 n) {
  EACH(i, k, j, n) {
    double c = w ? t * w[i * ws + j] : t, v = q[i * qs + j], norm = __builtin_sqrt(v);
    dst[i * ds + j] = norm > c && c > 0 ? c / norm / v : 0.0;
  }
}

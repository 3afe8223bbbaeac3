#include "device.h"

// dst = max(1 - t w/sqrt(q), 0), 1 where t w = 0; w may be null, for ones
KERNEL shrink(double *dst, i64 ds, const double *q, i64 qs, const double *w, i64 ws, double t, i64 k, i64 n) {
  EACH(i, k, j, n) {
    double c = w ? t * w[i * ws + j] : t, f = 1;
    if (c != 0) {
      f = 1 - c / __builtin_sqrt(q[i * qs + j]);
      if (f < 0) f = 0;
    }
    dst[i * ds + j] = f;
  }
}

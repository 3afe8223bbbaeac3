#include "device.h"

// dst = 1 where |v| > t w or t w = 0, else 0; w may be null, for ones
KERNEL soft_mask(double *dst, i64 ds, const double *v, i64 vs, const double *w, i64 ws, double t, i64 k, i64 n) {
  EACH(i, k, j, n) {
    double c = w ? t * w[i * ws + j] : t;
    dst[i * ds + j] = __builtin_fabs(v[i * vs + j]) > c || c == 0 ? 1.0 : 0.0;
  }
}

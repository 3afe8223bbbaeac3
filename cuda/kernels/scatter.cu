#include "device.h"

// dst_i[idx_j] = x_ij
KERNEL scatter(double *dst, i64 ds, const double *x, i64 xs, const int *idx, i64 k, i64 n) {
  EACH(i, k, j, n) dst[i * ds + idx[j]] = x[i * xs + j];
}

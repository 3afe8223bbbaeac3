#include "device.h"

// dst_ij = x_i[idx_j]
KERNEL gather(double *dst, i64 ds, const double *x, i64 xs, const int *idx, i64 k, i64 n) {
  EACH(i, k, j, n) dst[i * ds + j] = x[i * xs + idx[j]];
}

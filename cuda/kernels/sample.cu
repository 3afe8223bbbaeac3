#include "device.h"

// dst_ie = alpha <row e1 of A_i, row e2 of B_i> + beta dst_ie for the entries
// e = (e1, e2) of a pattern; rows have r values
KERNEL sample(double *dst, i64 ds, double alpha, const int *rows, const int *cols, const double *a, i64 as, const double *b, i64 bs, double beta, i64 r, i64 k, i64 n) {
  EACH(i, k, e, n) {
    const double *u = a + i * as + rows[e] * r, *v = b + i * bs + cols[e] * r;
    double s = 0;
    for (i64 l = 0; l < r; l++) s += u[l] * v[l];
    double *out = dst + i * ds + e;
    *out = beta == 0 ? alpha * s : alpha * s + beta * *out;
  }
}

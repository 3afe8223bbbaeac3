#include "device.h"

// C_i = alpha Z_i B_i + beta C_i: line j of C_i sums, in the order of the line, the rows
// of B_i that Z_i's entries in the line cross, each times its entry; rows have r values
KERNEL spread(double *c, i64 cs, double alpha, const i64 *ptr, const int *entry, const int *other, const double *z, i64 zs, const double *b, i64 bs, double beta, i64 r, i64 k, i64 n) {
  EACH(i, k, j, n) {
    i64 line = j / r, l = j % r;
    double s = 0;
    for (i64 u = ptr[line]; u < ptr[line + 1]; u++) s += z[i * zs + entry[u]] * b[i * bs + other[u] * r + l];
    double *out = c + i * cs + j;
    *out = beta == 0 ? alpha * s : alpha * s + beta * *out;
  }
}

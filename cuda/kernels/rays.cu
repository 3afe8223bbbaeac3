#include "device.h"

// dst_ij = the sum along ray j of image x_i, which is rows x cols. Of each ray, places has the place
// in line 0, the slope and the weight; spans the first line, the one after the last, and whether
// lines are columns. See array.Ray.
KERNEL rays(double *dst, i64 ds, const double *x, i64 xs, const double *places, const int *spans, i64 rows, i64 cols, i64 k, i64 n) {
  EACH(i, k, j, n) {
    double at = places[3 * j], slope = places[3 * j + 1], s = 0;
    int level = spans[3 * j + 2], width = level ? rows : cols;
    i64 along = level ? 1 : cols, across = level ? cols : 1;
    for (int line = spans[3 * j]; line < spans[3 * j + 1]; line++) {
      double place = at + rounded_product(slope, line);
      int q = (int)place;
      double part = place - q;
      const double *pixel = x + i * xs + line * along + q * across;
      if (q > 0) s += (1 - part) * pixel[-across];
      if (q < width) s += part * pixel[0];
    }
    dst[i * ds + j] = places[3 * j + 2] * s;
  }
}

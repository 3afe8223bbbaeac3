#include "device.h"

// VECTORS share the search for the rays that meet a pixel.
#define VECTORS 4
#define MARGIN 1e-6

// dst_ij = the sum of z_i over the rays that meet pixel j, each with its share of the pixel, as in
// the kernel rays. runs are triples: the first ray, the one after the last, and a sum of 1 where
// lines are columns and 2 where places fall from ray to ray. See array.RayRun. Each pixel finds its
// rays in every run, by secants, of which every third step is a bisection. The sum is in the order
// of the rays.
KERNEL rays_adjoint(double *dst, i64 ds, const double *z, i64 zs, const double *places, const int *spans, const int *runs, i64 count, i64 cols, i64 k, i64 n) {
  EACH(group, (k + VECTORS - 1) / VECTORS, j, n) {
    i64 first = group * VECTORS;
    int vectors = k - first < VECTORS ? (int)(k - first) : VECTORS;
    int row = (int)(j / cols), col = (int)(j % cols);
    const double *from = z + first * zs;
    double sums[VECTORS] = {};
    for (i64 r = 0; r < count; r++) {
      int level = runs[3 * r + 2] & 1, line = level ? col : row, pixel = (level ? row : col) + 1;
      double sign = runs[3 * r + 2] & 2 ? -1 : 1, goal = sign * pixel - 1 - MARGIN;
#define KEY(ray) (sign * (places[3 * (i64)(ray)] + rounded_product(places[3 * (i64)(ray) + 1], line)))
      // The rays up to low are before the pixel, and high is not.
      int low = runs[3 * r], high = runs[3 * r + 1] - 1;
      double before = KEY(low), after = KEY(high);
      if (before >= goal) {
        high = low;
      } else if (after < goal) {
        continue;
      }
      for (int step = 1; high - low > 1; step++) {
        int mid = step % 3 ? low + (int)((goal - before) / (after - before) * (high - low)) : (low + high) / 2;
        if (mid <= low) mid = low + 1;
        if (mid >= high) mid = high - 1;
        double key = KEY(mid);
        if (key < goal) {
          low = mid;
          before = key;
        } else {
          high = mid;
          after = key;
        }
      }
      for (int ray = high; ray < runs[3 * r + 1]; ray++) {
        double place = places[3 * (i64)ray] + rounded_product(places[3 * (i64)ray + 1], line);
        if (sign * place > sign * pixel + 1 + MARGIN) break;
        if (line < spans[3 * (i64)ray] || line >= spans[3 * (i64)ray + 1]) continue;
        int q = (int)place;
        double part = place - q, share = places[3 * (i64)ray + 2];
        if (q == pixel)
          share *= 1 - part;
        else if (q + 1 == pixel)
          share *= part;
        else
          continue;
        for (int v = 0; v < VECTORS; v++)
          if (v < vectors) sums[v] += share * from[v * zs + ray];
      }
#undef KEY
    }
    for (int v = 0; v < VECTORS; v++)
      if (v < vectors) dst[(first + v) * ds + j] = sums[v];
  }
}

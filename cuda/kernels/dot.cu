#include "device.h"

// partial_ic = <x_i, y_i> over the CHUNK of coordinates number c. A block sums a
// chunk: each thread every THREADS-th product, then the threads in a tree.
KERNEL dot(double *partial, const double *x, i64 xs, const double *y, i64 ys, i64 chunks, i64 k, i64 n) {
  __shared__ double sums[THREADS];
  int t = threadIdx.x;
  for (i64 u = blockIdx.x; u < k * chunks; u += gridDim.x) {
    i64 i = u / chunks, from = u % chunks * CHUNK, to = from + CHUNK < n ? from + CHUNK : n;
    double s = 0;
    for (i64 j = from + t; j < to; j += THREADS) s += x[i * xs + j] * y[i * ys + j];
    sums[t] = s;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
      if (t < half) sums[t] += sums[t + half];
      __syncthreads();
    }
    if (t == 0) partial[u] = sums[0];
  }
}

#include "device.h"

// out_i = the sum of the n values of x_i, by one block in a fixed order
KERNEL sum(double *out, const double *x, i64 k, i64 n) {
  __shared__ double sums[THREADS];
  int t = threadIdx.x;
  for (i64 i = blockIdx.x; i < k; i += gridDim.x) {
    double s = 0;
    for (i64 j = t; j < n; j += THREADS) s += x[i * n + j];
    sums[t] = s;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
      if (t < half) sums[t] += sums[t + half];
      __syncthreads();
    }
    if (t == 0) out[i] = sums[0];
  }
}

#include "device.h"

// out_i = the largest of the n values of x_i, all of them absolute values
KERNEL max_of(u64 *out, const u64 *x, i64 k, i64 n) {
  __shared__ u64 largest[THREADS];
  int t = threadIdx.x;
  for (i64 i = blockIdx.x; i < k; i += gridDim.x) {
    u64 m = 0;
    for (i64 j = t; j < n; j += THREADS) {
      if (x[i * n + j] > m) m = x[i * n + j];
    }
    largest[t] = m;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
      if (t < half && largest[t + half] > largest[t]) largest[t] = largest[t + half];
      __syncthreads();
    }
    if (t == 0) out[i] = largest[0];
  }
}

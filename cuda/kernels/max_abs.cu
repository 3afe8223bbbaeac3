#include "device.h"

// partial_ic = the largest |x_ij| over the CHUNK of coordinates number c. Without
// their sign the bits of numbers have the numbers' order, with NaN above infinity.
KERNEL max_abs(u64 *partial, const u64 *x, i64 xs, i64 chunks, i64 k, i64 n) {
  __shared__ u64 largest[THREADS];
  int t = threadIdx.x;
  for (i64 u = blockIdx.x; u < k * chunks; u += gridDim.x) {
    i64 i = u / chunks, from = u % chunks * CHUNK, to = from + CHUNK < n ? from + CHUNK : n;
    u64 m = 0;
    for (i64 j = from + t; j < to; j += THREADS) {
      u64 a = x[i * xs + j] & ~(1ull << 63);
      if (a > m) m = a;
    }
    largest[t] = m;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
      if (t < half && largest[t + half] > largest[t]) largest[t] = largest[t + half];
      __syncthreads();
    }
    if (t == 0) partial[u] = largest[0];
  }
}

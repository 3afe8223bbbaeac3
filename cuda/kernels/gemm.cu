#include "device.h"

#define TILE 64
#define DEPTH 16

// C_i = alpha op(A_i) op(B_i) + beta C_i for row-major matrices, i < batch; C is
// m x n. A block computes a TILE x TILE piece of one C, each thread 4 x 4 entries
// of it. Every entry is one sum in the order of the inner index: its bits depend
// on nothing but its row of op(A) and its column of op(B).
KERNEL gemm(i64 ta, i64 tb, i64 m, i64 n, i64 inner, double alpha, const double *a, i64 lda, i64 as, const double *b, i64 ldb, i64 bs, double beta, double *c, i64 ldc, i64 cs, i64 batch) {
  __shared__ double at[DEPTH][TILE + 1];
  __shared__ double bt[DEPTH][TILE + 1];
  int t = threadIdx.x, tx = t % 16, ty = t / 16;
  i64 tm = (m + TILE - 1) / TILE, tn = (n + TILE - 1) / TILE;
  for (i64 u = blockIdx.x; u < tm * tn * batch; u += gridDim.x) {
    i64 i = u / (tm * tn), row = u % (tm * tn) / tn * TILE, col = u % tn * TILE;
    const double *ai = a + i * as, *bi = b + i * bs;
    double acc[4][4] = {};
    for (i64 l0 = 0; l0 < inner; l0 += DEPTH) {
      // Neighbouring threads read neighbouring values, whichever way a matrix lies.
      for (int e = t; e < TILE * DEPTH; e += THREADS) {
        int r = ta ? e % TILE : e / DEPTH, l = ta ? e / TILE : e % DEPTH;
        at[l][r] = row + r < m && l0 + l < inner ? ai[ta ? (l0 + l) * lda + row + r : (row + r) * lda + l0 + l] : 0;
      }
      for (int e = t; e < TILE * DEPTH; e += THREADS) {
        int r = tb ? e / DEPTH : e % TILE, l = tb ? e % DEPTH : e / TILE;
        bt[l][r] = col + r < n && l0 + l < inner ? bi[tb ? (col + r) * ldb + l0 + l : (l0 + l) * ldb + col + r] : 0;
      }
      __syncthreads();
      for (int l = 0; l < DEPTH; l++) {
        double x[4], y[4];
        for (int p = 0; p < 4; p++) x[p] = at[l][ty + 16 * p];
        for (int q = 0; q < 4; q++) y[q] = bt[l][tx + 16 * q];
        for (int p = 0; p < 4; p++)
          for (int q = 0; q < 4; q++) acc[p][q] += x[p] * y[q];
      }
      __syncthreads();
    }
    for (int p = 0; p < 4; p++)
      for (int q = 0; q < 4; q++) {
        i64 r = row + ty + 16 * p, s = col + tx + 16 * q;
        if (r < m && s < n) {
          double *to = c + i * cs + r * ldc + s;
          *to = beta == 0 ? alpha * acc[p][q] : alpha * acc[p][q] + beta * *to;
        }
      }
  }
}

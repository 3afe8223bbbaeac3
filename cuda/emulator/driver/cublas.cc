// The cuBLAS entry points that surepipe calls, on the emulated card.
#include <cublas_v2.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

#include "queue.h"

namespace {

struct handle {
  cudaStream_t stream = nullptr;
};

// pack copies op(M) with rows as given into a contiguous row-major matrix; M is
// column-major with leading dimension ld.
void pack(std::vector<double> &to, const double *m, int ld, bool trans, int rows, int cols) {
  to.resize(static_cast<size_t>(rows) * cols);
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < cols; j++)
      to[static_cast<size_t>(i) * cols + j] = trans ? m[static_cast<size_t>(i) * ld + j] : m[static_cast<size_t>(j) * ld + i];
}

// Each entry is one sum in the order of the inner index. Columns of C go four at a
// time, rows run along the vector units.
__attribute__((target_clones("default", "avx2")))
void multiply(double *c, int ldc, const double *at, const double *bt, int m, int n, int k, double alpha, double beta) {
  // at: k x m, row l is column l of op(A); bt: n x k.
  constexpr int strip = 64;
  for (int i0 = 0; i0 < m; i0 += strip)
    for (int j0 = 0; j0 < n; j0 += 4) {
      double acc[4][strip] = {};
      int rows = m - i0 < strip ? m - i0 : strip, cols = n - j0 < 4 ? n - j0 : 4;
      for (int l = 0; l < k; l++) {
        const double *a = at + static_cast<size_t>(l) * m + i0;
        for (int j = 0; j < cols; j++) {
          double b = bt[static_cast<size_t>(j0 + j) * k + l];
          if (rows == strip)
            for (int i = 0; i < strip; i++) acc[j][i] += a[i] * b;
          else
            for (int i = 0; i < rows; i++) acc[j][i] += a[i] * b;
        }
      }
      for (int j = 0; j < cols; j++)
        for (int i = 0; i < rows; i++) {
          double *to = c + static_cast<size_t>(j0 + j) * ldc + i0 + i;
          *to = beta == 0 ? alpha * acc[j][i] : alpha * acc[j][i] + beta * *to;
        }
    }
}

} // namespace

EXPORT cublasStatus_t cublasCreate_v2(cublasHandle_t *h) {
  if (emulated_gemm_fails()) return CUBLAS_STATUS_NOT_INITIALIZED;
  *h = reinterpret_cast<cublasHandle_t>(new handle);
  return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasDestroy_v2(cublasHandle_t h) {
  delete reinterpret_cast<handle *>(h);
  return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasSetStream_v2(cublasHandle_t h, cudaStream_t s) {
  reinterpret_cast<handle *>(h)->stream = s;
  return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void *, size_t) { return CUBLAS_STATUS_SUCCESS; }

EXPORT cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int *v) {
  *v = 0;
  return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasDgemm_v2(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const double *alpha, const double *a, int lda, const double *b, int ldb, const double *beta, double *c, int ldc) {
  if (emulated_gemm_fails()) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (m < 0 || n < 0 || k < 0 || lda < (ta == CUBLAS_OP_N ? m : k) || ldb < (tb == CUBLAS_OP_N ? k : n) || ldc < m) return CUBLAS_STATUS_INVALID_VALUE;
  double al = *alpha, be = *beta;
  emulated_submit(reinterpret_cast<CUstream>(reinterpret_cast<handle *>(h)->stream), [=] {
    std::vector<double> at, bt;
    pack(at, a, lda, ta == CUBLAS_OP_N, k, m);
    pack(bt, b, ldb, tb == CUBLAS_OP_N, n, k);
    multiply(c, ldc, at.data(), bt.data(), m, n, k, al, be);
  });
  return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasDgemv_v2(cublasHandle_t h, cublasOperation_t ta, int m, int n, const double *alpha, const double *a, int lda, const double *x, int incx, const double *beta, double *y, int incy) {
  if (emulated_gemm_fails()) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (m < 0 || n < 0 || lda < m || incx != 1 || incy != 1) return CUBLAS_STATUS_INVALID_VALUE;
  double al = *alpha, be = *beta;
  emulated_submit(reinterpret_cast<CUstream>(reinterpret_cast<handle *>(h)->stream), [=] {
    int out = ta == CUBLAS_OP_N ? m : n;
    std::vector<double> sum(out);
    for (int j = 0; j < n; j++) {
      const double *col = a + static_cast<size_t>(j) * lda;
      if (ta == CUBLAS_OP_N)
        for (int i = 0; i < m; i++) sum[i] += col[i] * x[j];
      else
        for (int i = 0; i < m; i++) sum[j] += col[i] * x[i];
    }
    for (int i = 0; i < out; i++) y[i] = be == 0 ? al * sum[i] : al * sum[i] + be * y[i];
  });
  return CUBLAS_STATUS_SUCCESS;
}

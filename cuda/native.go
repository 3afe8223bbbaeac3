//go:build cuda

package cuda

// This file adds what gorgonia.org/cu v0.9.6 lacks: pinned memory; the outcome of cuInit; products
// by cuBLAS on a stream and for several goroutines; and a launch that is safe with the garbage
// collector. (cu.Function.Launch stores pointers in C memory that it has not cleared. The
// collector's write barrier takes the old contents for a pointer that is overwritten, and where
// that is the address of freed memory the program crashes.)

/*
#cgo CFLAGS: -I/usr/local/cuda/include
#cgo LDFLAGS: -L/usr/local/cuda/lib64 -L/usr/local/cuda/lib64/stubs -lcublas -lcuda -ldl
#include <stdint.h>
#include <cuda.h>
#include <cublas_v2.h>

#cgo noescape launch
#cgo nocallback launch

// launch starts a kernel whose parameters are the n values, each of 8 bytes.
static CUresult launch(uintptr_t f, unsigned gx, unsigned gy, unsigned bx, unsigned by,
	uintptr_t stream, uint64_t *values, int n) {
	void *params[32];
	for (int i = 0; i < n; i++) params[i] = &values[i];
	return cuLaunchKernel((CUfunction)f, gx, gy, 1, bx, by, 1, 0, (CUstream)stream, params, 0);
}

int surepipe_init_outcome(void);

static cublasOperation_t op(int trans) { return trans ? CUBLAS_OP_T : CUBLAS_OP_N; }

static cublasStatus_t dgemm(uintptr_t h, int ta, int tb, int m, int n, int k, double alpha, uintptr_t a, int lda,
	uintptr_t b, int ldb, double beta, uintptr_t c, int ldc) {
	return cublasDgemm((cublasHandle_t)h, op(ta), op(tb), m, n, k, &alpha, (const double *)a, lda, (const double *)b,
		ldb, &beta, (double *)c, ldc);
}

static cublasStatus_t dgemv(uintptr_t h, int ta, int m, int n, double alpha, uintptr_t a, int lda, uintptr_t x,
	double beta, uintptr_t y) {
	return cublasDgemv((cublasHandle_t)h, op(ta), m, n, &alpha, (const double *)a, lda, (const double *)x, 1, &beta,
		(double *)y, 1);
}

static cublasStatus_t create(uintptr_t stream, uintptr_t *out) {
	cublasHandle_t h;
	cublasStatus_t s = cublasCreate(&h);
	if (s != CUBLAS_STATUS_SUCCESS) return s;
	*out = (uintptr_t)h;
	return cublasSetStream(h, (cudaStream_t)stream);
}

static cublasStatus_t set_workspace(uintptr_t h, uintptr_t p, size_t bytes) {
	return cublasSetWorkspace((cublasHandle_t)h, (void *)p, bytes);
}
static cublasStatus_t destroy(uintptr_t h) { return cublasDestroy((cublasHandle_t)h); }

static CUresult host_alloc(uintptr_t *out, size_t bytes) {
	void *p = 0;
	CUresult r = cuMemHostAlloc(&p, bytes, 0);
	*out = (uintptr_t)p;
	return r;
}
static CUresult host_free(uintptr_t p) { return cuMemFreeHost((void *)p); }
*/
import "C"

import (
	"fmt"
	"unsafe"

	"gorgonia.org/cu"
)

// driverError is a CUresult of a call that does not go through gorgonia.org/cu.
type driverError int

func (e driverError) Error() string {
	var name *C.char
	if C.cuGetErrorName(C.CUresult(e), &name) != C.CUDA_SUCCESS {
		return fmt.Sprintf("CUDA error %d", int(e))
	}
	return C.GoString(name)
}

func driverResult(r C.CUresult) error {
	if r == C.CUDA_SUCCESS {
		return nil
	}
	return driverError(r)
}

func launch(f cu.Function, g grid, s cu.Stream, values []uint64) error {
	return driverResult(C.launch(C.uintptr_t(*(*uintptr)(unsafe.Pointer(&f))), C.uint(g.x), C.uint(g.y), C.uint(g.bx),
		C.uint(g.by),
		C.uintptr_t(*(*uintptr)(unsafe.Pointer(&s))), (*C.uint64_t)(&values[0]), C.int(len(values))))
}

// initError is the reason why the driver could not be started, or nil.
func initError() error {
	switch r := C.surepipe_init_outcome(); r {
	case C.CUDA_SUCCESS:
		return nil
	case C.CUDA_ERROR_NO_DEVICE:
		return errNoCard
	default:
		return fmt.Errorf("cuInit: %w", driverError(r))
	}
}

// pinned is page-locked host memory, which the card accesses directly.
type pinned struct {
	at     C.uintptr_t
	values []float64
}

func newPinned(n int) (p pinned, err error) {
	if err := driverResult(C.host_alloc(&p.at, C.size_t(8*n))); err != nil {
		return p, err
	}
	p.values = unsafe.Slice((*float64)(*(*unsafe.Pointer)(unsafe.Pointer(&p.at))), n)
	return p, nil
}

func (p pinned) pointer() unsafe.Pointer { return unsafe.Pointer(&p.values[0]) }
func (p pinned) free() error             { return driverResult(C.host_free(p.at)) }

// blasError is a cublasStatus_t.
type blasError int

const (
	blasAllocFailed  blasError = 3
	blasInvalidValue blasError = 7
)

func (e blasError) Error() string {
	names := map[blasError]string{1: "not initialized", blasAllocFailed: "allocation failed",
		blasInvalidValue: "invalid value", 8: "architecture mismatch", 13: "execution failed", 14: "internal error",
		15: "not supported"}
	if name, ok := names[e]; ok {
		return "cuBLAS: " + name
	}
	return fmt.Sprintf("cuBLAS: status %d", int(e))
}

func blasResult(s C.cublasStatus_t) error {
	if s == C.CUBLAS_STATUS_SUCCESS {
		return nil
	}
	return blasError(s)
}

// blasHandle is a cuBLAS handle bound to a stream; 0 for none.
type blasHandle struct{ h C.uintptr_t }

func newBLAS(stream cu.Stream) (h blasHandle, err error) {
	err = blasResult(C.create(C.uintptr_t(*(*uintptr)(unsafe.Pointer(&stream))), &h.h))
	return h, err
}

func (h blasHandle) setWorkspace(p cu.DevicePtr, bytes int64) error {
	return blasResult(C.set_workspace(h.h, C.uintptr_t(p), C.size_t(bytes)))
}

func (h blasHandle) destroy() error { return blasResult(C.destroy(h.h)) }

func flag(t bool) C.int {
	if t {
		return 1
	}
	return 0
}

// gemm computes the row-major C = alpha op(A) op(B) + beta C, m x n, as the
// column-major C' = op(B)' op(A)'.
func (h blasHandle) gemm(ta, tb bool, m, n, inner int, alpha float64, a matrix, b matrix, beta float64,
	c matrix) error {
	return blasResult(C.dgemm(h.h, flag(tb), flag(ta), C.int(n), C.int(m), C.int(inner), C.double(alpha),
		C.uintptr_t(b.at), C.int(b.ld), C.uintptr_t(a.at), C.int(a.ld), C.double(beta), C.uintptr_t(c.at), C.int(c.ld)))
}

// gemv computes the row c = alpha a op(B) + beta c of n values.
func (h blasHandle) gemv(tb bool, n, inner int, alpha float64, a matrix, b matrix, beta float64, c matrix) error {
	rows, cols := n, inner
	if tb {
		rows, cols = inner, n
	}
	return blasResult(C.dgemv(h.h, flag(tb), C.int(rows), C.int(cols), C.double(alpha), C.uintptr_t(b.at),
		C.int(b.ld), C.uintptr_t(a.at), C.double(beta), C.uintptr_t(c.at)))
}

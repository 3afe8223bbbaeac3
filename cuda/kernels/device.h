// What a kernel may use. nvcc knows it all; clang without the CUDA toolkit gets
// the few names that the kernels need; and the emulated driver compiles the same
// sources for the host with its own definitions.
//
// Every kernel parameter is 8 bytes wide: a pointer, a long long or a double.
#ifndef SUREPIPE_DEVICE_H
#define SUREPIPE_DEVICE_H

typedef long long i64;
typedef unsigned long long u64;

#if defined(SUREPIPE_EMULATED)
#include "emulate.h"
#elif defined(__clang__) && !defined(__CLANG_CUDA_RUNTIME_WRAPPER_H__)
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))

struct surepipe_index {
  unsigned x, y;
};
#define threadIdx (surepipe_index{(unsigned)__nvvm_read_ptx_sreg_tid_x(), (unsigned)__nvvm_read_ptx_sreg_tid_y()})
#define blockIdx (surepipe_index{(unsigned)__nvvm_read_ptx_sreg_ctaid_x(), (unsigned)__nvvm_read_ptx_sreg_ctaid_y()})
#define blockDim (surepipe_index{(unsigned)__nvvm_read_ptx_sreg_ntid_x(), (unsigned)__nvvm_read_ptx_sreg_ntid_y()})
#define gridDim (surepipe_index{(unsigned)__nvvm_read_ptx_sreg_nctaid_x(), (unsigned)__nvvm_read_ptx_sreg_nctaid_y()})
#endif

// rounded_product is never fused with a sum.
static __device__ inline double rounded_product(double a, double b) {
#if defined(SUREPIPE_EMULATED)
  double p = a * b;
#else
  double p;
  asm("mul.rn.f64 %0, %1, %2;" : "=d"(p) : "d"(a), "d"(b));
#endif
  return p;
}

#define KERNEL extern "C" __global__ void

// EACH visits every entry (i, j) of a k x n matrix once, from a grid of any size.
#define EACH(i, k, j, n)                                                                                \
  for (i64 i = (i64)blockIdx.y * blockDim.y + threadIdx.y; i < (k); i += (i64)gridDim.y * blockDim.y)   \
    for (i64 j = (i64)blockIdx.x * blockDim.x + threadIdx.x; j < (n); j += (i64)gridDim.x * blockDim.x)

// THREADS is the size of a block in kernels whose threads work together.
#define THREADS 256

// CHUNK is the length over which a reduction runs in one block. It is part of the
// definition of the results' bits.
#define CHUNK 4096

#endif

// The names that a kernel's source uses, for kernels compiled for the host.
#ifndef SUREPIPE_EMULATE_H
#define SUREPIPE_EMULATE_H

#define __global__
#define __device__
#define __shared__ static thread_local

struct emulated_index {
  unsigned x, y;
};
extern thread_local emulated_index threadIdx, blockIdx, blockDim, gridDim;

// __syncthreads suspends the thread until its whole block has come here.
void emulated_barrier();
#define __syncthreads() emulated_barrier()

#endif

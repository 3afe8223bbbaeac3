//go:build cuda

// gorgonia.org/cu calls cuInit before main and ends the process where it fails: a
// machine without a card could not even print its help. Its call comes here, where a
// failure is kept for Cards and Open to report.
#define _GNU_SOURCE
#include <dlfcn.h>

#include <cuda.h>

static CUresult outcome = CUDA_ERROR_NOT_INITIALIZED;

CUresult cuInit(unsigned flags) {
  CUresult (*driver)(unsigned) = (CUresult(*)(unsigned))dlsym(RTLD_NEXT, "cuInit");
  if (driver) outcome = driver(flags);
  return CUDA_SUCCESS;
}

int surepipe_init_outcome(void) { return outcome; }

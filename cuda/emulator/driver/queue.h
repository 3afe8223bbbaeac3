// What libcublas needs from libcuda: the same queue and the same faults.
#ifndef SUREPIPE_QUEUE_H
#define SUREPIPE_QUEUE_H

#include <functional>

#include <cuda.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

// submit puts work at the end of a stream. It runs when a call waits for it.
__attribute__((visibility("default"))) void emulated_submit(CUstream stream, std::function<void()> work);

// gemm counts a product and reports whether its call must fail.
__attribute__((visibility("default"))) bool emulated_gemm_fails();

#endif

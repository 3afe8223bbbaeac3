// An emulated CUDA driver: the entry points that surepipe calls do their work on the host, and all
// others return an error. Kernels run from their own sources.
//
// Work is queued and runs when a call waits for it, so that a result which is read too early is
// wrong, as on a card. Fresh device memory holds NaNs, and bytes written around an allocation are
// found when it is freed.
#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "grid.h"
#include "queue.h"

namespace {

// counters is what emulator.Counters in Go reads: the same fields in this order.
struct counters {
  int64_t calls, allocs, frees, live_bytes, peak_bytes, pinned, launches, gemms, syncs;
  int64_t to_card, to_card_bytes, from_card, from_card_bytes, overruns, objects;
};

enum fault_mode { refuse = 0, poison = 1 };

struct emulated_stream {
  int device = 0;
  std::mutex queue_mu, run_mu;
  std::deque<std::pair<uint64_t, std::function<void()>>> queue;
  uint64_t submitted = 0, done = 0;
};

struct emulated_event {
  emulated_stream *stream = nullptr;
  uint64_t at = 0;
};

struct allocation {
  char *block;
  size_t bytes;
};

struct emulated_context {
  int device;
};

constexpr size_t guard = 64;
constexpr unsigned char guard_byte = 0xa5;
constexpr int max_devices = 4;
// A queue longer than this is run by the call that adds to it.
constexpr size_t longest_queue = 512;

struct {
  std::mutex mu;
  counters count{};
  int64_t memory = 1ll << 30;
  int devices = 1;
  int64_t fail_at = 0; // in calls; 0 for never
  fault_mode mode = refuse;
  std::atomic<bool> poisoned[max_devices]{};
  // The kernel launch, counted by card from 1, that breaks the context of a card; -1 for none.
  int fault_device = -1;
  int64_t fault_launch = 0, launched[max_devices]{};
  std::map<CUdeviceptr, allocation> allocations[max_devices];
  int64_t used[max_devices]{};
  int retained[max_devices]{};
  emulated_context contexts[max_devices]{{0}, {1}, {2}, {3}};
  std::vector<std::pair<char *, size_t>> pinned;
  std::vector<emulated_stream *> streams;
} state;

thread_local emulated_context *current;

// here is the card of the thread's context.
int here() { return current ? current->device : 0; }

void heal() {
  for (auto &p : state.poisoned) p = false;
}

bool armed(std::lock_guard<std::mutex> &) { return ++state.count.calls == state.fail_at; }

// enter counts a call that may be made to fail and returns its error, if any. Work that is queued
// fails when it runs, if a failure breaks the context: then bad is set.
CUresult enter(CUresult failure, bool *bad = nullptr) {
  std::lock_guard<std::mutex> lock(state.mu);
  bool fails = armed(lock);
  if (state.poisoned[here()]) return CUDA_ERROR_LAUNCH_FAILED;
  if (!current) return CUDA_ERROR_INVALID_CONTEXT;
  if (!fails) return CUDA_SUCCESS;
  if (state.mode == refuse) return failure;
  if (bad) {
    *bad = true;
    return CUDA_SUCCESS;
  }
  state.poisoned[here()] = true;
  return CUDA_ERROR_LAUNCH_FAILED;
}

emulated_stream *stream_of(CUstream s) {
  static emulated_stream *legacy = [] {
    auto *all = new emulated_stream[max_devices];
    for (int d = 0; d < max_devices; d++) all[d].device = d;
    return all;
  }();
  return s ? reinterpret_cast<emulated_stream *>(s) : &legacy[here()];
}

void run_until(emulated_stream *s, uint64_t target) {
  std::lock_guard<std::mutex> running(s->run_mu);
  while (s->done < target) {
    std::function<void()> work;
    {
      std::lock_guard<std::mutex> lock(s->queue_mu);
      work = std::move(s->queue.front().second);
      s->done = s->queue.front().first;
      s->queue.pop_front();
    }
    if (!state.poisoned[s->device]) work();
  }
}

void finish(emulated_stream *s) {
  uint64_t target;
  {
    std::lock_guard<std::mutex> lock(s->queue_mu);
    target = s->submitted;
  }
  run_until(s, target);
}

void finish_all() {
  std::vector<emulated_stream *> all;
  {
    std::lock_guard<std::mutex> lock(state.mu);
    all = state.streams;
  }
  for (emulated_stream *s : all) finish(s);
  finish(stream_of(nullptr));
}

CUresult outcome() { return state.poisoned[here()] ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS; }

bool intact(const allocation &a) {
  for (size_t i = 0; i < guard; i++)
    if (static_cast<unsigned char>(a.block[i]) != guard_byte ||
        static_cast<unsigned char>(a.block[guard + a.bytes + i]) != guard_byte)
      return false;
  return true;
}

void forget(int device, std::map<CUdeviceptr, allocation>::iterator at) {
  if (!intact(at->second)) state.count.overruns++;
  state.count.frees++;
  state.count.live_bytes -= at->second.bytes;
  state.used[device] -= at->second.bytes;
  free(at->second.block);
  state.allocations[device].erase(at);
}

bool is_pinned(const void *p) {
  std::lock_guard<std::mutex> lock(state.mu);
  for (auto &[at, bytes] : state.pinned)
    if (p >= at && p < at + bytes) return true;
  return false;
}

// on_card reports whether the bytes lie within one allocation.
bool on_card(CUdeviceptr p, size_t bytes) {
  std::lock_guard<std::mutex> lock(state.mu);
  for (auto &all : state.allocations) {
    auto at = all.upper_bound(p);
    if (at == all.begin()) continue;
    --at;
    if (p + bytes <= at->first + at->second.bytes) return true;
  }
  return false;
}

int64_t environment(const char *name, int64_t otherwise) {
  const char *v = getenv(name);
  return v && *v ? atoll(v) : otherwise;
}

} // namespace

void emulated_submit(CUstream stream, std::function<void()> work) {
  emulated_stream *s = stream_of(stream);
  bool full;
  {
    std::lock_guard<std::mutex> lock(s->queue_mu);
    s->queue.emplace_back(++s->submitted, std::move(work));
    full = s->queue.size() > longest_queue;
  }
  if (full) finish(s);
}

bool emulated_gemm_fails() {
  {
    std::lock_guard<std::mutex> lock(state.mu);
    state.count.gemms++;
  }
  return enter(CUDA_ERROR_LAUNCH_FAILED) != CUDA_SUCCESS;
}

// The emulator's own entry points, for tests.

EXPORT void surepipe_emulator_counters(counters *out) {
  std::lock_guard<std::mutex> lock(state.mu);
  *out = state.count;
}

// Resets the counts, except those of held memory and objects.
EXPORT void surepipe_emulator_reset() {
  std::lock_guard<std::mutex> lock(state.mu);
  counters now{};
  now.live_bytes = now.peak_bytes = state.count.live_bytes;
  for (auto &all : state.allocations) now.allocs += all.size();
  now.pinned = state.count.pinned;
  now.objects = state.count.objects;
  state.count = now;
  state.fail_at = 0;
  heal();
}

// The n-th call from now fails: with mode 1 it, or the work that it queued, breaks
// the context, and every call after that fails too.
EXPORT void surepipe_emulator_fail(int64_t n, int64_t mode) {
  std::lock_guard<std::mutex> lock(state.mu);
  state.fail_at = n > 0 ? state.count.calls + n : 0;
  state.mode = static_cast<fault_mode>(mode);
  heal();
}

EXPORT void surepipe_emulator_memory(int64_t bytes) {
  std::lock_guard<std::mutex> lock(state.mu);
  state.memory = bytes;
}

// The driver API.

EXPORT CUresult cuInit(unsigned) {
  std::lock_guard<std::mutex> lock(state.mu);
  state.devices = static_cast<int>(std::clamp<int64_t>(environment("SUREPIPE_EMULATED_CARDS", 1), 0, max_devices));
  state.memory = environment("SUREPIPE_EMULATED_MEMORY", state.memory);
  if (const char *fault = getenv("SUREPIPE_EMULATED_FAULT"); fault && *fault) {
    long long launch = 0;
    if (sscanf(fault, "%d:%lld", &state.fault_device, &launch) != 2) state.fault_device = -1;
    state.fault_launch = launch;
  }
  return state.devices == 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

EXPORT CUresult cuDriverGetVersion(int *v) {
  *v = 11080;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorName(CUresult r, const char **name) {
  static const std::map<CUresult, const char *> names = {
      {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
      {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
      {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
      {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"},
      {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN"},
  };
  auto at = names.find(r);
  if (at == names.end()) return CUDA_ERROR_INVALID_VALUE;
  *name = at->second;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *n) {
  *n = state.devices;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *d, int i) {
  if (i < 0 || i >= state.devices) return CUDA_ERROR_INVALID_DEVICE;
  *d = i;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice) {
  snprintf(name, size, "emulated card");
  return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem(size_t *bytes, CUdevice) {
  std::lock_guard<std::mutex> lock(state.mu);
  *bytes = state.memory;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int *v, CUdevice_attribute a, CUdevice) {
  switch (a) {
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    *v = 7;
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
    *v = 0;
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    *v = 1;
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice d) {
  std::lock_guard<std::mutex> lock(state.mu);
  if (armed(lock)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (state.poisoned[d]) return CUDA_ERROR_LAUNCH_FAILED;
  state.retained[d]++;
  state.count.objects++;
  *ctx = reinterpret_cast<CUcontext>(&state.contexts[d]);
  return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice d) {
  finish_all();
  std::lock_guard<std::mutex> lock(state.mu);
  if (state.retained[d] == 0) return CUDA_ERROR_INVALID_CONTEXT;
  state.count.objects--;
  if (--state.retained[d] > 0) return CUDA_SUCCESS;
  // The context is destroyed with everything that it still holds. After a fault that could not be
  // freed; at any other time it is a leak, which the counts of objects and live bytes have shown
  // before.
  if (state.poisoned[d]) {
    while (!state.allocations[d].empty()) forget(d, state.allocations[d].begin());
    state.poisoned[d] = false;
  }
  return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext ctx) {
  current = reinterpret_cast<emulated_context *>(ctx);
  return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *ctx) {
  *ctx = reinterpret_cast<CUcontext>(current);
  return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetInfo(size_t *free, size_t *total) {
  if (CUresult r = enter(CUDA_ERROR_UNKNOWN)) return r;
  std::lock_guard<std::mutex> lock(state.mu);
  *total = state.memory;
  *free = std::max<int64_t>(0, state.memory - state.used[current->device]);
  return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAlloc(CUdeviceptr *p, size_t bytes) {
  if (CUresult r = enter(CUDA_ERROR_OUT_OF_MEMORY)) return r;
  std::lock_guard<std::mutex> lock(state.mu);
  int d = current->device;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (state.used[d] + static_cast<int64_t>(bytes) > state.memory) return CUDA_ERROR_OUT_OF_MEMORY;
  char *block = static_cast<char *>(malloc(bytes + 2 * guard));
  if (!block) return CUDA_ERROR_OUT_OF_MEMORY;
  memset(block, guard_byte, guard);
  memset(block + guard, 0xff, bytes);
  memset(block + guard + bytes, guard_byte, guard);
  *p = reinterpret_cast<CUdeviceptr>(block + guard);
  state.allocations[d][*p] = {block, bytes};
  state.used[d] += bytes;
  state.count.allocs++;
  state.count.live_bytes += bytes;
  state.count.peak_bytes = std::max(state.count.peak_bytes, state.count.live_bytes);
  return CUDA_SUCCESS;
}

EXPORT CUresult cuMemFree(CUdeviceptr p) {
  finish_all();
  std::lock_guard<std::mutex> lock(state.mu);
  if (state.poisoned[here()]) return CUDA_ERROR_LAUNCH_FAILED;
  if (!current) return CUDA_ERROR_INVALID_CONTEXT;
  auto at = state.allocations[current->device].find(p);
  if (at == state.allocations[current->device].end()) return CUDA_ERROR_INVALID_VALUE;
  forget(current->device, at);
  return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostAlloc(void **p, size_t bytes, unsigned) {
  if (CUresult r = enter(CUDA_ERROR_OUT_OF_MEMORY)) return r;
  std::lock_guard<std::mutex> lock(state.mu);
  char *block = static_cast<char *>(malloc(bytes));
  state.pinned.emplace_back(block, bytes);
  state.count.pinned++;
  *p = block;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuMemFreeHost(void *p) {
  finish_all();
  std::lock_guard<std::mutex> lock(state.mu);
  for (size_t i = 0; i < state.pinned.size(); i++)
    if (state.pinned[i].first == p) {
      free(p);
      state.pinned.erase(state.pinned.begin() + i);
      state.count.pinned--;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  if (CUresult r = enter(CUDA_ERROR_UNKNOWN)) return r;
  if (!on_card(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  {
    std::lock_guard<std::mutex> lock(state.mu);
    state.count.to_card++;
    state.count.to_card_bytes += bytes;
  }
  // Pageable memory is staged before the call returns.
  auto staged = std::make_shared<std::vector<char>>(static_cast<const char *>(from), static_cast<const char *>(from) + bytes);
  emulated_submit(stream, [=] { memcpy(reinterpret_cast<void *>(to), staged->data(), bytes); });
  return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (CUresult r = enter(CUDA_ERROR_UNKNOWN)) return r;
  if (!on_card(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  {
    std::lock_guard<std::mutex> lock(state.mu);
    state.count.from_card++;
    state.count.from_card_bytes += bytes;
  }
  if (is_pinned(to)) {
    emulated_submit(stream, [=] { memcpy(to, reinterpret_cast<void *>(from), bytes); });
    return CUDA_SUCCESS;
  }
  finish(stream_of(stream));
  if (state.poisoned[here()]) return CUDA_ERROR_LAUNCH_FAILED;
  memcpy(to, reinterpret_cast<void *>(from), bytes);
  return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamCreate(CUstream *out, unsigned) {
  if (CUresult r = enter(CUDA_ERROR_OUT_OF_MEMORY)) return r;
  auto *s = new emulated_stream;
  s->device = here();
  std::lock_guard<std::mutex> lock(state.mu);
  state.streams.push_back(s);
  state.count.objects++;
  *out = reinterpret_cast<CUstream>(s);
  return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy(CUstream stream) {
  emulated_stream *s = stream_of(stream);
  finish(s);
  std::lock_guard<std::mutex> lock(state.mu);
  state.streams.erase(std::remove(state.streams.begin(), state.streams.end(), s), state.streams.end());
  state.count.objects--;
  delete s;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  if (CUresult r = enter(CUDA_ERROR_LAUNCH_FAILED)) return r;
  {
    std::lock_guard<std::mutex> lock(state.mu);
    state.count.syncs++;
  }
  finish(stream_of(stream));
  return outcome();
}

EXPORT CUresult cuEventCreate(CUevent *out, unsigned) {
  if (CUresult r = enter(CUDA_ERROR_OUT_OF_MEMORY)) return r;
  std::lock_guard<std::mutex> lock(state.mu);
  state.count.objects++;
  *out = reinterpret_cast<CUevent>(new emulated_event);
  return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy(CUevent e) {
  std::lock_guard<std::mutex> lock(state.mu);
  state.count.objects--;
  delete reinterpret_cast<emulated_event *>(e);
  return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent e, CUstream stream) {
  if (CUresult r = enter(CUDA_ERROR_UNKNOWN)) return r;
  auto *event = reinterpret_cast<emulated_event *>(e);
  event->stream = stream_of(stream);
  std::lock_guard<std::mutex> lock(event->stream->queue_mu);
  event->at = event->stream->submitted;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuEventSynchronize(CUevent e) {
  if (CUresult r = enter(CUDA_ERROR_LAUNCH_FAILED)) return r;
  auto *event = reinterpret_cast<emulated_event *>(e);
  {
    std::lock_guard<std::mutex> lock(state.mu);
    state.count.syncs++;
  }
  if (event->stream) run_until(event->stream, event->at);
  return outcome();
}

// A module is its PTX text: a kernel is found in it by its entry, and by its source
// among those compiled for the host.
EXPORT CUresult cuModuleLoadData(CUmodule *out, const void *image) {
  if (CUresult r = enter(CUDA_ERROR_NO_BINARY_FOR_GPU)) return r;
  auto text = std::make_unique<std::string>(static_cast<const char *>(image));
  if (text->find(".version") == std::string::npos) return CUDA_ERROR_INVALID_PTX;
  std::lock_guard<std::mutex> lock(state.mu);
  state.count.objects++;
  *out = reinterpret_cast<CUmodule>(text.release());
  return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleUnload(CUmodule m) {
  finish_all();
  std::lock_guard<std::mutex> lock(state.mu);
  state.count.objects--;
  delete reinterpret_cast<std::string *>(m);
  return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name) {
  if (CUresult r = enter(CUDA_ERROR_NOT_FOUND)) return r;
  auto *text = reinterpret_cast<std::string *>(m);
  size_t at = text->find(std::string(".entry ") + name + "(");
  const emulated_kernel *k = find_kernel(name);
  if (at == std::string::npos || !k) return CUDA_ERROR_NOT_FOUND;
  std::string head = text->substr(at, text->find(')', at) - at);
  int params = 0;
  for (size_t p = head.find(".param"); p != std::string::npos; p = head.find(".param", p + 1)) params++;
  if (params != k->params) return CUDA_ERROR_INVALID_PTX;
  *out = reinterpret_cast<CUfunction>(const_cast<emulated_kernel *>(k));
  return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params, void **extra) {
  bool poisons = false;
  const int device = here();
  if (CUresult r = enter(CUDA_ERROR_LAUNCH_FAILED, &poisons)) return r;
  // The limits of every card since compute capability 3.0.
  if (gx == 0 || gy == 0 || gz != 1 || bz != 1 || bx == 0 || by == 0 || gx > 0x7fffffffu || gy > 65535 || static_cast<uint64_t>(bx) * by > 1024 || shared != 0 || extra)
    return CUDA_ERROR_INVALID_VALUE;
  {
    std::lock_guard<std::mutex> lock(state.mu);
    state.count.launches++;
    if (++state.launched[device] == state.fault_launch && device == state.fault_device) poisons = true;
  }
  auto *k = reinterpret_cast<emulated_kernel *>(f);
  auto values = std::make_shared<std::vector<uint64_t>>(k->params);
  for (int i = 0; i < k->params; i++) memcpy(&(*values)[i], params[i], 8);
  emulated_submit(stream, [=] {
    std::vector<void *> at;
    for (uint64_t &v : *values) at.push_back(&v);
    if (poisons || !run_grid(k, gx, gy, bx, by, at.data())) state.poisoned[device] = true;
  });
  return CUDA_SUCCESS;
}

#include "grid.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#include "emulate.h"

thread_local emulated_index threadIdx, blockIdx, blockDim, gridDim;

namespace {

// invoke calls a kernel with parameters as cuLaunchKernel takes them: pointers to
// the values, each of which is 8 bytes.
template <typename... A, size_t... I>
void apply(void (*kernel)(A...), void **params, std::index_sequence<I...>) {
  static_assert(((sizeof(A) == 8) && ...), "a kernel parameter is 8 bytes wide");
  kernel(*static_cast<A *>(params[I])...);
}

template <typename... A>
void apply(void (*kernel)(A...), void **params) {
  apply(kernel, params, std::index_sequence_for<A...>{});
}

template <typename... A>
constexpr int arity(void (*)(A...)) {
  return sizeof...(A);
}

template <auto kernel>
void invoke(void **params) {
  apply(kernel, params);
}

} // namespace

#include "kernels.inc"

const emulated_kernel *find_kernel(const char *name) {
  for (const emulated_kernel &k : kernels)
    if (!strcmp(k.name, name)) return &k;
  return nullptr;
}

namespace {

// The threads of a block that meets barriers are fibers of one host thread, each on
// a stack of its own. They are made once and then run block after block.
// Were the size a power of two, all stacks would compete for the same few cache lines.
constexpr size_t stack_bytes = (20 << 10) + 192;

#if defined(__x86_64__)
// switch_stack saves the current state in *from and continues where to was saved.
extern "C" void emulated_switch_stack(void **from, void *to);
asm(R"(
.text
.hidden emulated_switch_stack
.type emulated_switch_stack, @function
emulated_switch_stack:
	pushq %rbp
	pushq %rbx
	pushq %r12
	pushq %r13
	pushq %r14
	pushq %r15
	movq %rsp, (%rdi)
	movq %rsi, %rsp
	popq %r15
	popq %r14
	popq %r13
	popq %r12
	popq %rbx
	popq %rbp
	ret
)");

struct place {
  void *sp = nullptr;

  // start makes a place at the beginning of f on a stack.
  void start(char *stack, void (*f)()) {
    auto top = reinterpret_cast<uintptr_t>(stack + stack_bytes) & ~uintptr_t{15};
    auto slots = reinterpret_cast<void **>(top) - 8; // six registers, f, and its return address
    for (int i = 0; i < 8; i++) slots[i] = nullptr;
    slots[6] = reinterpret_cast<void *>(f);
    sp = slots;
  }

  void go(place &to) { emulated_switch_stack(&sp, to.sp); }
};
#else
struct place {
  ucontext_t context;

  void start(char *stack, void (*f)()) {
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = stack_bytes;
    context.uc_link = nullptr;
    makecontext(&context, f, 0);
  }

  void go(place &to) { swapcontext(&context, &to.context); }
};
#endif

struct fiber {
  place at;
  bool done = false;
  std::unique_ptr<char[]> stack;
};

struct block_of_fibers {
  std::vector<fiber> fibers;
  place scheduler;
  fiber *running = nullptr;
  const emulated_kernel *kernel;
  void **params;

  // resume runs fiber f until its next barrier or its end.
  void resume(fiber *f) {
    running = f;
    if (!f->stack) {
      f->stack.reset(new char[stack_bytes]); // untouched memory costs nothing
      f->at.start(f->stack.get(), entry);
    }
    scheduler.go(f->at);
  }

  void suspend() { running->at.go(scheduler); }

  static void entry();
};

thread_local block_of_fibers *fibers_here;

void block_of_fibers::entry() {
  block_of_fibers *b = fibers_here;
  fiber *f = b->running;
  for (;;) {
    b->kernel->call(b->params);
    f->done = true;
    b->suspend();
  }
}

// run_block runs the threads from barrier to barrier.
bool run_block(block_of_fibers *b, unsigned bx, unsigned by) {
  size_t count = static_cast<size_t>(bx) * by;
  if (b->fibers.size() < count) b->fibers.resize(count);
  for (size_t t = 0; t < count; t++) b->fibers[t].done = false;
  for (size_t left = count; left > 0;) {
    size_t ended = 0;
    for (size_t t = 0; t < count; t++) {
      threadIdx = {static_cast<unsigned>(t % bx), static_cast<unsigned>(t / bx)};
      b->resume(&b->fibers[t]);
      ended += b->fibers[t].done;
    }
    if (ended > 0 && ended < left) return false;
    left -= ended;
  }
  return true;
}

} // namespace

void emulated_barrier() { fibers_here->suspend(); }

bool run_grid(const emulated_kernel *k, unsigned gx, unsigned gy, unsigned bx, unsigned by, void **params) {
  blockDim = {bx, by};
  gridDim = {gx, gy};
  if (k->barriers) {
    // Host threads are few and live long: each keeps its fibers.
    if (!fibers_here) fibers_here = new block_of_fibers;
    fibers_here->kernel = k;
    fibers_here->params = params;
  }
  for (unsigned y = 0; y < gy; y++)
    for (unsigned x = 0; x < gx; x++) {
      blockIdx = {x, y};
      if (k->barriers) {
        if (!run_block(fibers_here, bx, by)) return false;
        continue;
      }
      for (unsigned ty = 0; ty < by; ty++)
        for (unsigned tx = 0; tx < bx; tx++) {
          threadIdx = {tx, ty};
          k->call(params);
        }
    }
  return true;
}

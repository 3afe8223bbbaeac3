// Package cuda implements [surepipe/array.Device] on NVIDIA cards. Solvers, derivatives
// and trace estimators run on it unchanged, and what they keep stays there: importing the
// package makes "cuda", "cuda:1" and "auto" known to array.Open, and nothing else of the
// program changes.
//
// # Building
//
// The package is empty unless it is built on Linux with the tag cuda, a C compiler, and the
// headers and libraries of a CUDA 11 or 12 toolkit:
//
//	go build -tags cuda ./cmd/surepipe
//	surepipe info
//	surepipe run --device cuda ...
//
// A toolkit at /usr/local/cuda is found; for one elsewhere set C_INCLUDE_PATH and
// LIBRARY_PATH. The program runs with any newer driver, and needs libcuda.so.1 and
// libcublas.so to start. Where it finds no card, "auto" is the processor.
//
// Cards, memory, modules, copies and streams go through gorgonia.org/cu. cuBLAS, which
// gorgonia.org/cu/blas cannot bind to a stream, and the launch of kernels are called directly.
//
// # What is resident
//
// Batches live on the card until they are downloaded. The solver cache (iterates, the
// derivatives of the proximal operator, the tape) is one copy, shared by all stages and all samples
// in flight. What crosses the bus: y, the probes that the processor draws, and the
// estimates; the coefficients of LinEach and the results of Dot and MaxAbs, a number a
// vector; Gram matrices of a few dozen vectors; and what a factorization on the
// processor takes, for the nuclear norm a matrix of its shorter side or, along iterates of low
// rank, a few more rows than the rank. Once a solve one vector of length p tells where a diagonal
// derivative is not 0, and an implicit one's system on that support is factored on
// the processor. A nuclear norm's argument crosses whole only where its singular values
// span too much for its Gram matrix (see prox.NewNuclear).
//
// # Order
//
// All work goes to one stream, in the order of the calls, and calls return before it is done. Only
// Download, Dot, MaxAbs and Sync wait. So memory that is freed can be lent
// again at once, and goroutines may share a batch as they may on the host. (A stream for each
// sample in flight would let small problems overlap; it would take an event for every batch that goes from one
// goroutine to another, and large problems fill a card by themselves.) Contexts belong to
// threads: every call sets the card's primary context on the thread it happens to
// run on, which costs a fraction of a microsecond.
//
// # Memory
//
// Freed memory is pooled by size, in steps of an eighth of a power of two, and goes back to
// the driver when an Alloc would otherwise fail. [Open] takes a bound, --memory on the
// command line, and keeps to nearly all free memory without one. A Device is an
// array.Budgeted: who can work in smaller parts asks Available or Reserve first, so that
// the tape is computed again in parts and batches of probes shrink before anything
// fails. What fails in the end is an array.OutOfMemory, which says how much was needed.
// cuBLAS works in 32 MiB that are taken, within the bound, at its first use.
//
// # Reproducibility
//
// Results have the same bits for any batch size, on one card with one cuBLAS. Dot sums chunks of 4096 in
// trees of fixed shape. cuBLAS chooses kernels by all sizes of a product, so it
// is given tiles of 64 rows, always, and large products only; small and batched ones go
// to a kernel of ours that sums in the order of the inner index. NaNs are kept
// by every kernel and by MaxAbs.
//
// # Errors
//
// A fault sticks, and names the operation, the shape and the bytes; later operations do
// nothing and results that they would have returned are NaN. A device that has failed can
// only be closed, which frees what it holds, batches out on loan included.
//
// # Kernels
//
// Each is one file in kernels, and the set is what array.Device names. go generate
// compiles them to PTX for compute capability 7.0, which is embedded and which drivers translate
// for any later card, and writes the functions that launch them from their signatures. It needs
// clang 14, whose output is what is committed.
//
// # The emulated card
//
// emulator/driver is a driver without a card: it exports what this package and
// gorgonia.org/cu call, compiles the kernels' own sources for the processor, counts
// allocations, launches and bytes copied, and fails any call that a test asks it to (package
// emulator). Work is done as late as it may be, so that results read too early are
// wrong.
//
//	cuda/emulator/headers.sh /tmp/headers
//	cuda/emulator/build.sh /tmp/headers /tmp/card
//	export C_INCLUDE_PATH=/tmp/headers LIBRARY_PATH=/tmp/card LD_LIBRARY_PATH=/tmp/card
//	go test -count=1 -tags cuda ./cuda ./array
//
// SUREPIPE_EMULATED_CARDS (default 1) and SUREPIPE_EMULATED_MEMORY (in bytes, default 1
// GiB) say what the machine has. On a machine with a card but without Go, bench/bench.sh
// checks and times it.
package cuda

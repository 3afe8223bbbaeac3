// Package cuda implements [surepipe/array.Device] on NVIDIA cards. Solvers, derivatives and trace
// estimators run on it unchanged, and their data stay there: importing the package makes "cuda",
// "cuda:1" and "auto" known to array.Open, and nothing else in the program changes.
//
// # Building
//
// The package is empty unless it is built on Linux with the tag cuda, a C compiler, and the headers
// and libraries of a CUDA 11 or 12 toolkit:
//
//	go build -tags cuda ./cmd/surepipe
//	surepipe info
//	surepipe run --device cuda ...
//
// A toolkit at /usr/local/cuda is found; for one elsewhere set C_INCLUDE_PATH and LIBRARY_PATH. The
// program runs with any newer driver, and needs libcuda.so.1 and libcublas.so to start. Where it
// finds no card, "auto" is the host.
//
// Cards, memory, modules, copies and streams go through gorgonia.org/cu. cuBLAS, which
// gorgonia.org/cu/blas cannot bind to a stream, and the launch of kernels are called directly.
//
// # What stays on the card
//
// Batches stay on the card until they are downloaded. The solver cache (iterates, derivatives of
// the proximal operator, tape) exists once, and all stages share it. The following crosses the bus:
// y, the probes, which the host draws, and the estimates; the coefficients of LinEach and the
// results of Dot and MaxAbs, one number a vector; Gram matrices of a few dozen vectors; and the
// input of factorizations on the host, which for the nuclear norm is a matrix of its shorter side
// or, along iterates of low rank, a few more rows than the rank. Once per solve, one vector of
// length p gives the support of a diagonal derivative; the system of an implicit derivative on that
// support is factored on the host. Behind an operator the model of the regularizer is built on the
// host, from a few vectors of the operator's rows, and a sparse factor that preconditions the system
// is applied there, two vectors a probe and step. Operators with a Load (package linops/imaging) keep what
// they need on the card; others copy every product's vectors. The whole argument of a nuclear norm crosses only
// where its singular values span too much for its Gram matrix (see lowrank.NewNuclear).
//
// # Order
//
// All work goes to one stream, in the order of the calls, and calls return before the work is done.
// Only Download, Dot, MaxAbs and Sync wait. So freed memory can be reused at once, and goroutines
// may share a batch as on the host. (A stream for each sample in flight would let small problems
// overlap; it would take an event for every batch that goes from one goroutine to another, and
// large problems fill a card by themselves.) Contexts belong to threads: every call sets the card's
// primary context on its thread, which costs a fraction of a microsecond.
//
// # Memory
//
// Freed memory is pooled by size, in steps of an eighth of a power of two, and returned to the
// driver when an Alloc would otherwise fail. [Open] takes a bound, --memory on the command line;
// without one it is nearly all free memory. Algorithms that can work in smaller parts ask Available
// or Reserve first: the tape is recomputed in parts and batches of probes shrink before anything
// fails. If an allocation does fail, the error is an array.OutOfMemory, which says how much was
// needed. cuBLAS has a workspace of 32 MiB, allocated within the bound at its first use.
//
// # Reproducibility
//
// Results have the same bits for any batch size, on one card with one cuBLAS. Dot sums chunks of
// 4096 in trees of fixed shape. cuBLAS chooses kernels by all sizes of a product, so it only gets
// large products, in tiles of 64 rows; small and batched ones go to a kernel of this package that
// sums in the order of the inner index. Every kernel, and MaxAbs, keeps NaN.
//
// # Errors
//
// A fault names the operation, the shape and the bytes, and sticks; later operations do nothing,
// and the numbers that they would have returned are NaN.
//
// The driver's error determines to what a fault belongs. A fault that concerns one call, above all
// a lack of memory, belongs to the view of the operation ([Device.Request]): other requests on the
// card go on, with the same bits as alone. A fault that ends the card's context, such as a failed
// launch or an illegal address, belongs to the device and shows in all views; such a device can
// only be closed, which frees its memory, including batches that have not been freed. A call that
// waits may report the failure of an earlier launch of another request, so the error decides, not
// the call. A batch without memory never reaches a kernel of another request: an operation that
// reads it fails with its fault.
//
// # Kernels
//
// Each kernel is one file in kernels. They serve the operations of array.Device: a new operation is a method there,
// with its check of shapes and its host version, a claim of arraytest, and one or more kernels here. go generate
// compiles them to PTX for compute capability 7.0, which is embedded and which drivers translate for any later card,
// and generates the functions that launch them from their signatures. It needs clang 14, whose output is committed.
//
// # The emulated card
//
// emulator/driver is a driver without a card: it exports what this package and gorgonia.org/cu
// call, compiles the kernels' own sources for the host, counts allocations, launches and bytes
// copied, and fails any call that a test asks it to (package emulator). It does all work as late as
// possible, so that results that are read too early are wrong.
//
//	cuda/emulator/headers.sh /tmp/headers
//	cuda/emulator/build.sh /tmp/headers /tmp/card
//	export C_INCLUDE_PATH=/tmp/headers LIBRARY_PATH=/tmp/card LD_LIBRARY_PATH=/tmp/card
//	go test -count=1 -tags cuda ./cuda ./array
//
// SUREPIPE_EMULATED_CARDS (default 1) and SUREPIPE_EMULATED_MEMORY (in bytes, default 1 GiB)
// describe the machine; SUREPIPE_EMULATED_FAULT=1:200 breaks the context of card 1 at its 200th
// launch of a kernel. On a machine with a card but without Go, bench/bench.sh checks and times it.
package cuda

// Surepipe estimates the risk of convex-regularized estimators without knowing the truth, by
// Stein's unbiased risk estimate, for named problems and for problems that a specification in YAML
// describes.
//
// See surepipe help, or the project's README.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"syscall"
	"time"

	"golang.org/x/term"

	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/internal/stored"
)

const (
	exitDone         = 0
	exitFailure      = 1
	exitUsage        = 2
	exitNotConverged = 3
	exitIncomplete   = 4
	exitInterrupted  = 128 + int(syscall.SIGINT)
	exitTerminated   = 128 + int(syscall.SIGTERM)
)

// errNotConverged is returned after the result has been printed.
var errNotConverged = errors.New("not converged")

// stopped is the cause of a context that a signal cancelled.
type stopped struct{ os.Signal }

func (s stopped) Error() string        { return "stopped by signal: " + s.String() }
func (s stopped) Is(target error) bool { return target == context.Canceled }

func reportStop(ctx context.Context, stderr io.Writer) int {
	if s := (stopped{}); errors.As(context.Cause(ctx), &s) && s.Signal == syscall.SIGTERM {
		fmt.Fprintln(stderr, "surepipe: terminated")
		return exitTerminated
	}
	fmt.Fprintln(stderr, "surepipe: interrupted")
	return exitInterrupted
}

// patienceAfterInterrupt is how long work may take to stop on its own after a signal.
const patienceAfterInterrupt = 600 * time.Millisecond

// collectEarly makes the garbage collector run before there is much garbage beside large data, which could double the
// memory of a large matrix, and before memory is exhausted, also that of a control group.
// GOGC and GOMEMLIMIT in the environment take precedence.
func collectEarly() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(mostGarbage)
		afterCollection(mostGarbage)
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	total := stored.Memory()
	if total > 0 {
		debug.SetMemoryLimit(total / 4 * 3)
	}
	limitGarbage = func(bytes int64) {
		if total == 0 || bytes < total/4*3 {
			debug.SetMemoryLimit(bytes)
		}
	}
}

// Garbage is at most mostGarbage percent of what is in use, and beyond cheapGarbage bytes no more than the collector
// reads in use: its work is proportional to that, and arrays of numbers have nothing to be read.
const (
	mostGarbage, leastGarbage = 200, 4
	cheapGarbage              = 64 << 20
)

// garbagePercent is the garbage at which to collect, for the bytes that are in use and those of them that are read.
func garbagePercent(used, read uint64) int {
	return int(min(max(100*max(cheapGarbage, read)/max(used, 1), leastGarbage), mostGarbage))
}

// afterCollection sets the percentage after each collection, of which the finalizer of garbage tells.
func afterCollection(percent int) {
	runtime.SetFinalizer(new([16]byte), func(*[16]byte) {
		heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/heap:bytes"}}
		metrics.Read(heap)
		next := garbagePercent(heap[0].Value.Uint64(), heap[1].Value.Uint64())
		if next != percent {
			debug.SetGCPercent(next)
		}
		afterCollection(next)
	})
}

// limitGarbage makes the garbage collector run before the process takes more than so many bytes, as far
// as that is garbage. It does nothing before [collectEarly].
var limitGarbage = func(bytes int64) {}

func main() {
	collectEarly()
	stored.HugePages()
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	// Work that checks the context stops on its own. A factorization does not check it, and is
	// abandoned. Nothing is half-written, because lines are written in one call and files are
	// renamed into place. A second signal has its default effect.
	go func() {
		s := <-signals
		signal.Stop(signals)
		cancel(stopped{s})
		time.Sleep(patienceAfterInterrupt)
		if term.IsTerminal(int(os.Stderr.Fd())) {
			fmt.Fprint(os.Stderr, "\r\x1b[K") // the line of progress
		}
		os.Exit(reportStop(ctx, os.Stderr))
	}()
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cmd := newRoot()
	cmd.SetArgs(args)
	out := &cli.KeptError{Writer: stdout}
	cmd.SetOut(out)
	cmd.SetErr(stderr)
	err := cli.CheckCommand(cmd, args)
	if err == nil {
		err = cmd.ExecuteContext(ctx)
	}
	if out.Err != nil && (err == nil || errors.Is(err, errNotConverged)) {
		err = out.Err // printing help returns no error
	}
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errNotConverged):
		return exitNotConverged
	case errors.Is(err, errIncomplete):
		return exitIncomplete
	case ctx.Err() != nil: // what has been computed since has no meaning
		return reportStop(ctx, stderr)
	case cli.BadUsage(err):
		fmt.Fprintf(stderr, "surepipe: %v\n", cli.Text(err))
		return exitUsage
	}
	fmt.Fprintf(stderr, "surepipe: %v\n", err)
	return exitFailure
}

package main

import (
	"log/slog"
	"math"
	"runtime"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"surepipe/array"
	"surepipe/study/load"
)

// machineFlags say what is computed at once, and where.
type machineFlags struct {
	parallel, probeBatch int
	memory, device       string
	verify, verbose      bool
	others               []array.Device // those of --device after the first, when they are open
}

// mostParallel is the largest --parallel: every sample in flight has goroutines and memory of its own.
const mostParallel = 1 << 14

func (f *machineFlags) register(flags *pflag.FlagSet, parallel int, storage *string) {
	flags.IntVar(&f.parallel, "parallel", parallel, "samples in flight at once")
	flags.IntVar(&f.probeBatch, "probe-batch", 0,
		"probes in one reverse sweep; 0 chooses. Results do not depend on it")
	flags.BoolVar(&f.verify, "verify", false, "check every result by other means: its derivative by solves at "+
		"perturbed y and at nearby weights, its solution by products with A and, for small problems, by another "+
		"solver. A discrepancy of more than four error bars makes the exit status 3. Takes several times as long")
	flags.StringVar(&f.memory, "memory", "4GiB", "memory for the tapes of all samples in flight and, if given, "+
		"the limit of all memory on a card; a tape that does not fit is recomputed in parts. With --storage "+
		"mapped or float32 also for the columns of X that one of them holds")
	flags.StringVar(storage, "storage", load.StorageAuto, storageFlag)
	flags.StringVar(&f.device, "device", "auto",
		"auto, or "+strings.Join(array.Kinds(), ", ")+"; cuda:1 is the second card, and cuda:0,cuda:1 spreads "+
			"samples, points of a sweep or probes over both")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "log every sample on standard error")
}

func (f *machineFlags) check() error {
	switch {
	case f.parallel < 1 || f.parallel > mostParallel:
		return usagef("--parallel is %d, expected 1 to %d", f.parallel, mostParallel)
	case f.probeBatch < 0:
		return usagef("--probe-batch is %d, expected 0 or more", f.probeBatch)
	}
	return nil
}

func (f *machineFlags) memoryBytes() (int64, error) {
	n, err := humanize.ParseBytes(f.memory)
	if err != nil || n == 0 || n > math.MaxInt64 {
		return 0, usagef("--memory is %q, expected a size such as 4GiB", f.memory)
	}
	return int64(n), nil
}

// openDevice opens the devices of the flags, each bounded by --memory where that is given, and returns
// the first. closeDevices closes them, and so does the job that is opened on them.
func (f *machineFlags) openDevice(cmd *cobra.Command) (array.Device, error) {
	memory, err := f.memoryBytes()
	if err != nil {
		return nil, err
	}
	if !cmd.Flags().Changed("memory") {
		memory = 0
	}
	names := strings.Split(f.device, ",")
	for i, name := range names[1:] {
		kind, _, numbered := strings.Cut(name, ":")
		first, _, both := strings.Cut(names[0], ":")
		if !numbered || !both || kind != first || slices.Contains(names[:i+1], name) {
			return nil, usagef("--device is %q, expected one device, or several cards of one kind such as "+
				"cuda:0,cuda:1, each once", f.device)
		}
	}
	dev, err := openDevice(cmd.Context(), names[0], memory)
	if err != nil {
		return nil, err
	}
	f.others = nil
	for _, name := range names[1:] {
		other, err := openDevice(cmd.Context(), name, memory)
		if err != nil {
			f.closeDevices(dev)
			return nil, err
		}
		f.others = append(f.others, other)
	}
	return dev, nil
}

// closeDevices closes what openDevice has opened; first is what it has returned.
func (f *machineFlags) closeDevices(first array.Device) {
	first.Close()
	for _, dev := range f.others {
		dev.Close()
	}
}

// logger writes to standard error when --verbose asks for it.
func (f *machineFlags) logger(cmd *cobra.Command) *slog.Logger {
	if !f.verbose {
		return nil
	}
	return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
}
func defaultParallel() int { return runtime.GOMAXPROCS(0) }

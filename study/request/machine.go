package request

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"surepipe/array"
	"surepipe/study"
)

// Machine says what is computed at once, and where.
type Machine struct {
	Parallel   int // samples in flight
	ProbeBatch int // probes in one reverse sweep, 0 to choose
	// Memory is the memory for tapes, such as 4GiB, and Device names a device or several cards.
	Memory, Device string
	// Bound bounds the bytes that the host holds in batches, 0 for no bound.
	Bound int64
	// On is a device in the place of that name.
	On array.Device
}

// MostParallel is the largest number of samples in flight: each has goroutines and memory of its own.
const MostParallel = 1 << 14

func (m *Machine) check() error {
	_, err := m.bytes()
	return cmp.Or(checkValues(value{"parallel", m.Parallel, m.Parallel >= 1 && m.Parallel <= MostParallel,
		fmt.Sprintf("1 to %d", MostParallel)}, value{"probe-batch", m.ProbeBatch, m.ProbeBatch >= 0, "0 or more"}), err)
}

func (m *Machine) bytes() (int64, error) {
	n, err := humanize.ParseBytes(m.Memory)
	if err != nil || n == 0 || n > math.MaxInt64 {
		return 0, study.Errorf("--memory is %q, expected a size such as 4GiB", m.Memory)
	}
	return int64(n), nil
}

// Columns are the bytes that columns of an X which is not in memory may take.
func (m *Machine) Columns() (int64, error) {
	memory, err := m.bytes()
	return max(memory/2, 1), err
}

// Devices opens the devices, each bounded by the memory where that is given. The estimator that is opened on them
// closes them.
func (r *Request) Devices(ctx context.Context) (opened []array.Device, err error) {
	m := &r.Machine
	if m.On != nil {
		return []array.Device{m.On}, nil
	}
	memory, err := m.bytes()
	if err != nil {
		return nil, err
	}
	if !r.Given("memory") {
		memory = 0
	}
	names := strings.Split(m.Device, ",")
	for i, name := range names[1:] {
		kind, _, numbered := strings.Cut(name, ":")
		first, _, both := strings.Cut(names[0], ":")
		if !numbered || !both || kind != first || slices.Contains(names[:i+1], name) {
			return nil, study.Errorf("--device is %q, expected one device, or several cards of one kind such as "+
				"cuda:0,cuda:1, each once", m.Device)
		}
	}
	for _, name := range names {
		dev, err := OpenDevice(ctx, name, memory)
		if err == nil && m.Bound > 0 && dev.Name() == "cpu" {
			bounded := array.NewHostOf(m.Bound)
			context.AfterFunc(ctx, func() { bounded.Stop(context.Cause(ctx)) })
			dev = bounded
		}
		if err != nil {
			Close(opened)
			return nil, err
		}
		opened = append(opened, dev)
	}
	return opened, nil
}

// Close closes devices.
func Close(devices []array.Device) {
	for _, dev := range devices {
		dev.Close()
	}
}

// OpenDevice has gonum use a native BLAS, and opens the device of that name. memory bounds
// the bytes that a card may hold; 0 stands for nearly all that is free. Once the context is done the
// device's operations end.
func OpenDevice(ctx context.Context, name string, memory int64) (array.Device, error) {
	if err := array.UseNative(); err != nil {
		return nil, study.Bad(err)
	}
	dev, err := array.Open(name, memory)
	var unknown *array.UnknownDevice
	switch {
	case err == nil:
		context.AfterFunc(ctx, func() { dev.Stop(context.Cause(ctx)) })
		return dev, nil
	case !errors.As(err, &unknown):
		return nil, study.Errorf("--device is %q: %w", name, err)
	case (name == "cuda" || strings.HasPrefix(name, "cuda:")) && !slices.Contains(unknown.Kinds, "cuda"):
		return nil, study.Errorf("--device is %q, but this build has no GPU support: expected auto or cpu, or a build "+
			"with a CUDA toolkit, go build -tags cuda ./cmd/surepipe (see go doc surepipe/cuda)", name)
	}
	return nil, study.Errorf("--device is %q, expected auto or %s", name, strings.Join(unknown.Kinds, " or "))
}

package study

import (
	"cmp"
	"context"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/stored"
	"surepipe/problems"
)

// SampleSource is the source of the samples of a Monte Carlo run. It holds one sample in memory at a
// time. It is not safe for concurrent use.
type SampleSource struct {
	// Name is the name of the input, for errors.
	Name string
	// Shape is a sample's shape, total the number of samples, -1 where it is unlimited.
	Shape []int
	Total int
	// get reads sample i. Where the input is a pipe, i must increase.
	get func(i int) ([]float64, error)
	// mayBlock says that get can wait for another process.
	mayBlock bool
	Close    func() error
	// end makes sure that the input ends after the last sample, where that has been read; nil where it
	// is in memory.
	end func() error

	held  []float64
	index int
}

// At is sample i. It is kept for a further call with the same i.
func (s *SampleSource) At(i int) ([]float64, error) {
	if s.held != nil && s.index == i {
		return s.held, nil
	}
	y, err := s.get(i)
	if err != nil {
		return nil, err
	}
	s.held, s.index = y, i
	return y, nil
}

// most is the number of samples of a run where it is not said and the source has no end.
const most = 100

// Count is the number of samples from first on: 0 stands for all, or for 100 where there is no end. It rejects samples
// that there are not.
func (s *SampleSource) Count(first, count int) (int, error) {
	switch {
	case s.Total < 0:
		return cmp.Or(count, most), nil
	case first >= s.Total:
		return 0, Errorf("--first is %d, but %s holds samples 0 to %d", first, s.Name, s.Total-1)
	case count > s.Total-first:
		return 0, Errorf("--samples is %d, but %s holds %d from sample %d on", count, s.Name, s.Total-first, first)
	}
	return cmp.Or(count, s.Total-first), nil
}

// from yields samples first to end-1. When ctx is done it stops waiting for a blocked pipe, and
// abandons a read in progress.
func (s *SampleSource) from(ctx context.Context, first, end int) iter.Seq2[[]float64, error] {
	type read struct {
		y   []float64
		err error
	}
	return func(yield func([]float64, error) bool) {
		for i := first; i < end; i++ {
			var r read
			if s.mayBlock {
				done := make(chan read, 1)
				go func() {
					y, err := s.At(i)
					done <- read{y, err}
				}()
				select {
				case r = <-done:
				case <-ctx.Done():
					return
				}
			} else {
				r.y, r.err = s.At(i)
			}
			if !yield(r.y, r.err) || r.err != nil {
				return
			}
		}
	}
}

// Simulated draws the samples around mu.
func Simulated(mu []float64, shape []int, sigma2 float64, seed uint64) *SampleSource {
	return &SampleSource{Shape: shape, Total: -1, Close: func() error { return nil },
		get: func(i int) ([]float64, error) { return problems.Sample(mu, sigma2, seed, i), nil }}
}

// SamplesOf are those that a function returns for their numbers, of a shape.
func SamplesOf(shape []int, sample func(i int) ([]float64, error)) *SampleSource {
	return &SampleSource{Shape: shape, Total: -1, Close: func() error { return nil }, get: sample, mayBlock: true}
}

// HeldSamples are the samples of a data file, all in memory.
func HeldSamples(path string, stack [][]float64, shape []int) *SampleSource {
	return &SampleSource{Name: path, Shape: shape, Total: len(stack), Close: func() error { return nil },
		get: func(i int) ([]float64, error) { return stack[i], nil }}
}

// OpenSamples opens the stack that --y names: a .npy file, the array "y" of a .npz
// file, or "-" for a .npy array on stdin. Errors are bad input and name the source.
func OpenSamples(path string, stdin io.Reader) (*SampleSource, error) {
	s := &SampleSource{Name: path, mayBlock: true}
	var stack *dataio.Stack
	var err error
	switch {
	case path == "-":
		s.Name = "standard input"
		if stack, err = dataio.NewStack(stdin); err != nil {
			return nil, Errorf("%s: %w", s.Name, err)
		}
	case strings.EqualFold(filepath.Ext(path), ".npz"):
		set, err := dataio.OpenNPZ(path)
		if err != nil {
			return nil, Bad(err)
		}
		s.mayBlock = false
		s.Close = set.Close
		if stack, err = set.Stack("y"); err != nil {
			set.Close()
			return nil, Errorf("%s: %w", path, err)
		}
	default:
		if stack, err = dataio.OpenStack(path); err != nil {
			return nil, Bad(err)
		}
		if info, err := os.Stat(path); err == nil {
			s.mayBlock = !info.Mode().IsRegular()
		}
	}
	closeSet := s.Close
	s.Close = func() error {
		err := stack.Close()
		if closeSet != nil {
			err = closeSet()
		}
		return err
	}
	s.end = func() error {
		if err := stack.End(); err != nil && err != io.EOF {
			return Errorf("%s: %w", s.Name, err)
		}
		return nil
	}
	s.Shape, s.Total = stack.Shape(), stack.Len()
	s.get = func(i int) ([]float64, error) {
		if stack.Index() != i {
			if err := stack.Seek(i); err != nil {
				return nil, Errorf("%s: %w", s.Name, err)
			}
		}
		y := make([]float64, stack.SampleLen())
		if err := stack.Next(y); err != nil {
			return nil, Errorf("%s: %w", s.Name, err)
		}
		return y, nil
	}
	// The shape is what the header claims.
	if err := stored.Fits("one of the samples of shape "+ndarray.ShapeString(s.Shape),
		8*float64(stack.SampleLen())); err != nil {
		s.Close()
		return nil, Errorf("%s: %w", s.Name, err)
	}
	return s, nil
}

package problems_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/problems"
	"surepipe/stages"
)

// slow is a matrix whose entries take a minute, or are a panic.
type slow struct {
	d, p   int
	panics bool
}

func (s slow) Dims() (int, int) { return s.d, s.p }
func (s slow) T() mat.Matrix    { return mat.Transpose{Matrix: s} }
func (s slow) At(i, j int) float64 {
	if s.panics {
		panic("no entry")
	}
	time.Sleep(time.Minute / time.Duration(s.d*s.p))
	return float64(i - j)
}

// A problem that is being made ends within a second of its context, whatever it waits for: an entry of a matrix, the
// norm of a matrix of 2000 x 2000, the multiplier of a large graph. A panic is an error.
func TestProblemsEndWithTheirContext(t *testing.T) {
	large := make([]float64, 2000*2000)
	for i := range large {
		large[i] = math.Sin(float64(i) * float64(i))
	}
	for name, c := range map[string]struct {
		problem string
		data    problems.Data
	}{
		"matrix":    {"lasso", problems.Data{X: slow{d: 60, p: 50}, Y: make([]float64, 60)}},
		"norm":      {"svt", problems.Data{Y: large, YShape: []int{2000, 2000}}},
		"variation": {"tv2d", problems.Data{Y: large, YShape: []int{2000, 2000}}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var ended time.Time
		time.AfterFunc(200*time.Millisecond, func() { ended = time.Now(); cancel() })
		p, err := problems.NewContext(ctx, c.problem, array.NewHost(), c.data, problems.Hyper{Lambda: problems.OfMax(0.5)})
		if took := time.Since(ended); !errors.Is(err, context.Canceled) || took > time.Second && !ended.IsZero() {
			t.Errorf("%s: %v, %v after the end of the context", name, err, took)
		}
		if p != nil {
			p.Release()
		}
		cancel()
	}
	var panicked *stages.PanicError
	_, err := problems.NewContext(t.Context(), "lasso", array.NewHost(), problems.Data{X: slow{2, 2, true},
		Y: []float64{1, 2}}, problems.Hyper{Lambda: problems.Absolute(1)})
	if !errors.As(err, &panicked) {
		t.Errorf("a panic: %v", err)
	}
}

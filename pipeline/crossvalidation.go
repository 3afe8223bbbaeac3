package pipeline

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/linops"
	"surepipe/risk"
	"surepipe/risk/warning"
	"surepipe/vjp"
)

// validation are the errors of predicting what folds leave out, at the points of a grid.
type validation struct {
	unit   []int // that each observation belongs to
	units  int
	times  []float64   // how often each observation has been left out
	sums   [][]float64 // by point and observation: the sum of its errors
	failed []int       // by point: how many fits have not converged
	fits   int         // how many there are
}

// mostCopied is the number of entries of A up to which as many folds as processors have a copy of their own.
const mostCopied = 1 << 26

// crossValidate fits all folds at the points of the part that are not known, each fold along the chains of the grid.
func (s *sweep) crossValidate(ctx context.Context) error {
	if !s.o.Criterion.Rule().Refits || s.begin() == s.part.end {
		return nil
	}
	if !predicts(s.f.Problem) {
		return errors.New("pipeline: the losses of single observations are not known")
	}
	d, n := len(s.y), s.part.end
	v := &validation{times: make([]float64, d), sums: make([][]float64, n), failed: make([]int, n)}
	v.unit, v.units = s.o.Folds.Units(d)
	for i := range v.sums {
		v.sums[i] = make([]float64, d)
	}
	workers := s.o.Parallel
	if a := s.f.Problem.A; a != nil {
		if entries := linops.StructureOf(a).Entries; entries.Known && entries.Value <= mostCopied {
			workers = max(workers, runtime.GOMAXPROCS(0))
		}
	}
	for repeat := range s.o.Folds.Times() {
		splits := s.o.Folds.Splits(d, repeat)
		failed := make([][]int, len(splits))
		var sums [][]float64
		err := s.onDevice(ctx, func(on *instance) error {
			sums = make([][]float64, n)
			for i := range sums {
				sums[i] = make([]float64, d)
			}
			return on.without(ctx, splits, workers, func(ctx context.Context, k int, r *refit) (err error) {
				failed[k], err = r.validate(ctx, sums)
				if err != nil && ctx.Err() == nil {
					err = fmt.Errorf("pipeline: fold %d of %d: %w", k, len(splits), err)
				}
				return err
			})
		})
		if err != nil {
			return err
		}
		for i, some := range sums {
			floats.Add(v.sums[i], some)
		}
		for _, split := range splits {
			for _, i := range split.Out {
				v.times[i]++
			}
		}
		v.fits += len(splits)
		for _, f := range failed {
			for i, n := range f {
				v.failed[i] += n
			}
		}
	}
	s.validated = v
	return nil
}

// validate fits one fold along the chains of the grid, and adds the errors of what it leaves out.
func (r *refit) validate(ctx context.Context, sums [][]float64) (failed []int, err error) {
	s := r.of
	failed = make([]int, len(sums))
	for _, c := range s.chains() {
		if c.end <= s.begin() || c.first >= s.part.end {
			continue
		}
		if err := r.follow(ctx, c, sums, failed); err != nil {
			return nil, err
		}
	}
	return failed, nil
}

// follow fits along one chain.
func (r *refit) follow(ctx context.Context, c chain, sums [][]float64, failed []int) error {
	s := r.of
	var path vjp.Path
	defer path.Release()
	from := start{path: &path}
	for i := c.first; i < min(c.end, s.part.end); i++ {
		if s.chained {
			from.ahead = r.on.ahead(i, c.end)
		}
		before := r.failed
		errs, b, err := r.errors(ctx, s.weights(i), from)
		if err != nil {
			return err
		}
		from.held = b
		failed[i] += r.failed - before
		for k, o := range r.split.Out {
			sums[i][o] += errs[k]
		}
	}
	return nil
}

// put sets the criterion of point i.
func (v *validation) put(r *Risk, i int) {
	sums, left := make([]float64, v.units), 0
	seen := make([]bool, v.units)
	for o, sum := range v.sums[i] {
		if v.times[o] > 0 {
			sums[v.unit[o]] += sum / v.times[o]
			seen[v.unit[o]] = true
			left++
		}
	}
	units := sums[:0]
	for u, e := range sums {
		if seen[u] {
			units = append(units, e)
		}
	}
	if v.failed[i] > 0 {
		r.Doubts = append(r.Doubts, warning.NotConverged.With("%d of %d fits without a fold did "+
			"not converge; allow more iterations, accept a larger tolerance, or try another solver", v.failed[i],
			v.fits))
	}
	mean := risk.OverUnits(units, left)
	r.CV = &mean
	if r.Digest == nil {
		r.Digest = &risk.Digest{D: r.D, Divergence: r.Trace.Trace}
	}
	dev := array.NewHost()
	projection, on := hutch.NewProjection(dev, len(units)), dev.Put(units, 1, len(units))
	packed := risk.Pack(projection.Vector(on))
	on.Free()
	projection.Free()
	r.Digest.Units, r.Digest.Losses = len(units), &packed
}

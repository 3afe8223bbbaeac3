package stages

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/internal/lists"
	"surepipe/internal/parallel"
	"surepipe/loss"
	"surepipe/risk"
)

const (
	// settled is the change of a step to a fit without an observation, over the smaller one of those of the linear
	// predictors by the first step and by all, at which steps end, after at most mostTowards. What is left changes the
	// loss by far less than its error bar, as does a change of insignificant times the largest linear predictor, which
	// rounding errors may make of observations that hardly move the fit.
	settled, mostTowards, insignificant = 1e-4, 60, 1e-10
	// fewLeft is the number of fits up to which products of a matrix with each vector take less work than one of
	// matrices, of which a device may fill up the smaller one.
	fewLeft = 4
	// farthest is how many times as far as it has come by itself a step is carried on.
	farthest = 10
)

// errTogether says that groups are not left out.
var errTogether = errors.New("a group of observations that do not stand alone is left out by fits without it: " +
	"choose cv")

// leaveJoint sets leave-one-out for a loss whose observations do not stand alone. With the loss l_i of the others,
// and C = A E (E* (A* l^(2) A + Q) E)^+ E* A*, the linear predictors of the fit without observation i move by the root
// dz of
//
//	dz = C (l^(2)(z) dz + l'(z) - l_i'(z + dz)),
//
// if the regularizer's manifold and its curvature there stay. It is found by repeated evaluation, in which the part of
// observation i in its own fit is the rate: where that is near to 1 leave-one-out is not known. The error is
// l(z + dz) - l_i(z + dz) (Verweij and van Houwelingen 1993, for the partial likelihood).
func (j *Job) leaveJoint(ctx context.Context, r *Risk, l loss.Joint) error {
	if j.settings.Together.Units > 0 {
		r.LGOErr = errTogether
	}
	if !j.settings.ALO {
		return nil
	}
	d, known := len(j.Y), j.solution.Linearization.Closed()
	exact := j.settings.Plan.Exact()
	if !exact && d > mostImaged {
		r.ALOErr = fmt.Errorf("where observations share risk sets leave-one-out is for at most %d of them, found %d; "+
			"choose cv", mostImaged, d)
		return nil
	}
	if !exact && !known.Known && known.Diagonal == nil {
		r.ALOErr = errors.New("it is for a derivative whose linear system is factored; choose cv")
		return nil
	}
	root, err := l.Root(j.solution.MuHat, j.y)
	if err != nil {
		return err
	}
	slope, losses := make([]float64, d), make([]float64, d)
	l.SlopeWithout(-1, slope, r.MuHat, j.Y)
	for first := 0; first < d; first += hutch.DefaultBatch {
		m := &leavers{j: j, root: root, z: r.MuHat, slope: slope,
			without: func(k int, dst, z []float64) { l.SlopeWithout(first+k, dst, z, j.Y) },
			moves:   make([]float64, min(hutch.DefaultBatch, d-first)*d)}
		unsettled, err := m.settle(ctx)
		if err != nil {
			return err
		}
		parallel.For(len(m.moves)/d, func(k int) {
			losses[first+k] = l.Share(first+k, m.at(k), j.Y)
		})
		for _, k := range unsettled {
			losses[first+k] = math.Inf(1)
		}
	}
	refits, err := j.refitLosses(ctx, losses, func(i int) float64 { return l.Share(i, r.MuHat, j.Y) })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if mean, stdErr := risk.Mean(losses); err == nil && !math.IsNaN(mean) {
		r.ALO, r.ALOStdErr, r.ALOProbesErr, r.Refits = mean, stdErr, 0, len(refits)
		j.keepLeftOut(losses)
		return nil
	}
	if err == nil {
		err = &risk.UnresolvedError{Count: max(untold(losses), 1), D: d,
			Why: "decide so much of the fit that steps from it do not lead to those without them"}
	}
	r.noLeaveOneOut(err, true)
	return nil
}

// leavers are fits without some observations: without sets dst to the slopes at z of the loss of the k-th one, and is
// called from several goroutines.
type leavers struct {
	j       *Job
	root    loss.Root
	without func(k int, dst, z []float64)
	z       []float64 // of the fit to all
	slope   []float64 // there
	moves   []float64 // dz of each
	least   float64   // change that counts, by settle
}

func (m *leavers) at(k int) []float64 {
	d := len(m.z)
	return floats.AddTo(make([]float64, d), m.z, m.moves[k*d:][:d])
}

// settle takes steps until all are done, and returns those that are not. With S = R C R* and x = R dz a step is
//
//	x = S (x + R*^+ (l'(z) - l_i'(z + dz))).
//
// Steps after the first are Anderson's (1965) of depth 1: what one step leaves is along few directions, as the part of
// one observation in the fit is. One that leaves more than the step before it is halved, as where the curvature is
// larger without an observation that filled its risk sets. A fit whose steps are done takes no more.
func (m *leavers) settle(ctx context.Context) (unsettled []int, err error) {
	d := len(m.z)
	m.least = insignificant * floats.Norm(m.z, math.Inf(1))
	open := lists.Upto(len(m.moves) / d)
	next, fits := make([]float64, len(m.moves)), make([]leaver, len(open))
	for k := range fits {
		all := make([]float64, 4*d)
		fits[k] = leaver{x: all[:d], to: all[d : 2*d], rest: all[2*d : 3*d], at: all[3*d:]}
	}
	each := func(f func(at int)) {
		parallel.Ranges(len(open), parallel.Rows(d), func(lo, hi int) {
			for at := lo; at < hi; at++ {
				f(at)
			}
		})
	}
	for range mostTowards {
		each(func(at int) {
			k, force := open[at], next[at*d:][:d]
			m.without(k, force, floats.AddTo(fits[k].at, m.z, m.moves[k*d:][:d]))
			floats.SubTo(force, m.slope, force)
			m.root.InverseAdjoint(force, force)
			floats.Add(force, fits[k].x)
		})
		if err := m.apply(ctx, next[:len(open)*d]); err != nil {
			return nil, err
		}
		each(func(at int) {
			fits[open[at]].step(m, next[at*d:][:d], m.moves[open[at]*d:][:d])
		})
		if open = slices.DeleteFunc(open, func(k int) bool { return fits[k].done }); len(open) == 0 {
			break
		}
	}
	return open, m.j.view.Err()
}

// leaver is a fit without an observation: x, where the step before it has led, and what that step was. at is memory.
type leaver struct {
	x, to, rest   []float64
	at            []float64
	first         float64 // the largest entry of dz by the first step
	least, share  float64 // the square of the rest of the last step that was taken, and the share of it that a step is
	stepped, done bool
}

// step takes the step that leads to the vector to, and sets dz.
func (f *leaver) step(m *leavers, to, dz []float64) {
	copy(f.at, dz)
	m.root.Inverse(dz, to)
	size, change := 0.0, 0.0
	for i, v := range dz {
		if a := math.Abs(v); a > size || a != a {
			size = a
		}
		if a := math.Abs(v - f.at[i]); a > change || a != a {
			change = a
		}
	}
	if !f.stepped {
		f.first = size
	}
	if f.done = change <= max(settled*min(f.first, size), m.least); f.done {
		return
	}
	rest := 0.0
	for i, v := range to {
		rest += (v - f.x[i]) * (v - f.x[i])
	}
	if f.stepped && !(rest <= f.least) {
		f.share /= 2
		for i, v := range f.to {
			f.x[i] = v - (1-f.share)*f.rest[i]
		}
		m.root.Inverse(dz, f.x)
		return
	}
	back := 0.0
	for i, v := range to {
		rest := v - f.x[i]
		f.x[i], f.rest[i] = rest-f.rest[i], rest // its change, for now
	}
	if f.stepped {
		if change := floats.Dot(f.x, f.x); change > 0 {
			back = max(-farthest, min(floats.Dot(f.rest, f.x)/change, farthest))
		}
	} else {
		f.share = 1
	}
	for i, v := range to {
		change := f.x[i] // of the rest
		f.x[i], f.to[i] = v-back*(v-f.to[i])-(1-f.share)*(f.rest[i]-back*change), v
	}
	f.least = rest
	m.root.Inverse(dz, f.x)
	f.stepped = true
}

// apply sets vectors v to S v, few of them one after the other.
func (m *leavers) apply(ctx context.Context, v []float64) error {
	n, images := len(v)/len(m.z), m.j.inSweeps()
	in, out := m.j.view.Put(v, n, len(m.z)), m.j.view.Alloc(n, len(m.z))
	defer array.Free(in, out)
	each := n
	if n <= fewLeft {
		each = 1
	}
	for k := 0; k < n; k += each {
		err := ctx.Err()
		if err == nil {
			err = images(ctx, out.Rows(k, k+each), in.Rows(k, k+each), make([]float64, each))
		}
		if err != nil {
			return err
		}
	}
	m.j.view.Download(v, out)
	return m.j.view.Err()
}

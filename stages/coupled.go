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
	// loss by far less than its error bar.
	settled, mostTowards = 1e-4, 20
	// farthest is how many times as far as by the first step a fit moves without an observation that decides nine
	// tenths of its own fit: the regularizer's manifold, where there are several, need not stay. A step is carried on
	// by at most as much at a time.
	farthest = 10
	// Along a step fits go to where the slope is flatEnough of that at its start, in at most mostAlong evaluations. The
	// last kept steps tell the curvature for the next one.
	mostAlong, flatEnough, kept = 10, 0.1, 8
)

// errTogether says that groups are not left out.
var errTogether = errors.New("a group of observations that do not stand alone is left out by fits without it: " +
	"choose cv")

// LeavesJointly is the error of leave-one-out for a loss whose observations do not stand alone, of which there are too
// many for it; exact says that the trace is. It is nil for other losses.
func LeavesJointly(l loss.Joint, d int, exact bool) error {
	if l == nil || exact || d <= mostImaged {
		return nil
	}
	return fmt.Errorf("where observations share risk sets leave-one-out is for at most %d of them, found %d; choose cv",
		mostImaged, d)
}

// leaveJoint sets leave-one-out for a loss whose observations do not stand alone. With the loss l_i of the others,
// and C = A E (E* (A* l^(2) A + Q) E)^+ E* A*, the linear predictors of the fit without observation i move by the root
// dz of
//
//	dz = C (l^(2)(z) dz + l'(z) - l_i'(z + dz)),
//
// if the regularizer's manifold and its curvature there stay. Evaluated once it is the first step to dz, which an
// observation that decides much of its own fit moves by many times: leave-one-out then is not known. The error is
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
	if r.ALOErr = LeavesJointly(l, d, exact); r.ALOErr != nil {
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
	slope, losses, open := make([]float64, d), make([]float64, d), 0
	l.SlopeWithout(-1, slope, r.MuHat, j.Y)
	for first := 0; first < d; first += hutch.DefaultBatch {
		m := &leavers{j: j, root: root, z: r.MuHat, slope: slope,
			without: func(k int, dst, z []float64) { l.SlopeWithout(first+k, dst, z, j.Y) },
			moves:   make([]float64, min(hutch.DefaultBatch, d-first)*d)}
		unsettled, err := m.settle(ctx)
		if err != nil {
			return err
		}
		if open += len(unsettled); !math.IsInf(known.SpaceMargin, 1) {
			open += m.far
		}
		parallel.For(len(m.moves)/d, func(k int) {
			losses[first+k] = l.Share(first+k, m.at(k), j.Y)
		})
	}
	mean, stdErr := risk.Mean(losses)
	switch {
	case open > 0:
		err = &risk.UnresolvedError{Count: open, D: d,
			Why: "decide so much of the fit that steps from it do not lead to those without them"}
	case math.IsNaN(mean):
		err = fmt.Errorf("steps towards the fit without an observation leave the range of the %s loss",
			loss.StructureOf(l).Name)
	default:
		r.ALO, r.ALOStdErr, r.ALOProbesErr = mean, stdErr, 0
		j.keepLeftOut(losses)
		return nil
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
	far     int       // how many are far from the fit to all, by settle
}

func (m *leavers) at(k int) []float64 {
	d := len(m.z)
	return floats.AddTo(make([]float64, d), m.z, m.moves[k*d:][:d])
}

// settle takes steps until all are done, and returns those that are not. With S = R C R*, x = R dz = S u and
//
//	r = x - u + R*^+ (l'(z) - l_i'(z + dz))
//
// the step of the curvature of the fit to all is S r. The method of Nocedal (1980) starts from it, and goes along its
// steps until the slope there is small. A fit whose steps are done takes no more.
func (m *leavers) settle(ctx context.Context) (unsettled []int, err error) {
	d := len(m.z)
	open := lists.Upto(len(m.moves) / d)
	fits := make([]leaver, len(open))
	each := func(f func(at, k int)) {
		parallel.Ranges(len(open), max(atATime/d, 1), func(lo, hi int) {
			for at := lo; at < hi; at++ {
				f(at, open[at])
			}
		})
	}
	each(func(_, k int) {
		fits[k] = leaver{z: slices.Clone(m.z), slope: make([]float64, d), r: make([]float64, d),
			x: make([]float64, d), u: make([]float64, d)}
		m.without(k, fits[k].slope, m.z)
		m.rest(&fits[k])
	})
	for range mostTowards {
		q, p := make([]float64, len(open)*d), make([]float64, len(open)*d)
		each(func(at, k int) { fits[k].pull(q[at*d:][:d]) })
		if err := m.apply(ctx, p, q); err != nil {
			return nil, err
		}
		each(func(at, k int) { m.step(k, &fits[k], p[at*d:][:d], q[at*d:][:d]) })
		if open = slices.DeleteFunc(open, func(k int) bool { return fits[k].done }); len(open) == 0 {
			break
		}
	}
	for _, f := range fits {
		if f.done && f.far {
			m.far++
		}
	}
	return open, m.j.view.Err()
}

// leaver is a fit without an observation.
type leaver struct {
	z, slope []float64 // its linear predictors, and the slopes of its loss there
	x, u, r  []float64 // see settle
	past     []secant
	first    float64 // the largest entry of dz by the first step
	done     bool
	far      bool // see farthest
}

// secant is a step p = S q and what it changes r by, of the other sign.
type secant struct {
	p, q, change  []float64
	along, pulled float64 // p* change, and the part of it in the next step
}

// rest sets r.
func (m *leavers) rest(f *leaver) {
	floats.SubTo(f.r, m.slope, f.slope)
	m.root.InverseAdjoint(f.r, f.r)
	floats.Add(f.r, f.x)
	floats.Sub(f.r, f.u)
}

// pull sets q to what S maps to the next step, but for past ones.
func (f *leaver) pull(q []float64) {
	copy(q, f.r)
	for i := len(f.past) - 1; i >= 0; i-- {
		s := &f.past[i]
		s.pulled = floats.Dot(s.p, q) / s.along
		floats.AddScaled(q, -s.pulled, s.change)
	}
}

// step takes the next step p = S q of the k-th fit, and sets dz.
func (m *leavers) step(k int, f *leaver, p, q []float64) {
	for i := range f.past {
		s := &f.past[i]
		c := s.pulled - floats.Dot(s.change, p)/s.along
		floats.AddScaled(p, c, s.p)
		floats.AddScaled(q, c, s.q)
	}
	dz, e := m.moves[k*len(p):][:len(p)], make([]float64, len(p))
	m.root.Inverse(e, p)
	change, size := 0.0, 0.0
	for i, v := range e {
		dz[i] = f.z[i] - m.z[i] + v
		change, size = max(change, math.Abs(v)), max(size, math.Abs(dz[i]))
	}
	if f.first == 0 {
		f.first = size
	}
	f.far = size > farthest*f.first
	if f.done = change <= settled*min(f.first, size); f.done {
		f.past = nil
	} else if slope := floats.Dot(p, f.r); slope > 0 {
		m.along(k, f, secant{p: p, q: q}, e, slope)
	} else {
		f.past = nil
	}
}

// along goes along a step, that of the linear predictors being e, to where the slope along it is small.
func (m *leavers) along(k int, f *leaver, s secant, e []float64, slope float64) {
	from := slices.Clone(f.z)
	still := floats.Dot(s.p, f.x) - floats.Dot(s.p, f.u) + floats.Dot(e, m.slope)
	bent := floats.Dot(s.p, s.p) - floats.Dot(s.p, s.q)
	low, high, atLow, atHigh, t := 0.0, math.Inf(1), slope, math.NaN(), 1.0
	for n := 1; ; n++ {
		floats.AddScaledTo(f.z, from, t, e)
		m.without(k, f.slope, f.z)
		at := still + t*bent - floats.Dot(e, f.slope)
		if math.Abs(at) <= flatEnough*slope || n == mostAlong {
			break
		}
		if at > 0 {
			low, atLow = t, at
		} else {
			high, atHigh = t, at
		}
		if part := atLow / (atLow - atHigh); math.IsInf(high, 1) {
			t *= max(2, min(slope/(slope-at), farthest))
		} else if part > 0 {
			t = low + (high-low)*max(0.1, min(part, 0.9))
		} else {
			t = (low + high) / 2
		}
	}
	floats.Scale(t, s.p)
	floats.Scale(t, s.q)
	floats.Add(f.x, s.p)
	floats.Add(f.u, s.q)
	s.change = slices.Clone(f.r)
	m.rest(f)
	floats.Sub(s.change, f.r)
	if s.along = floats.Dot(s.p, s.change); s.along > 0 {
		f.past = append(f.past[max(len(f.past)-kept+1, 0):], s)
	}
}

func (m *leavers) apply(ctx context.Context, dst, v []float64) error {
	n := len(v) / len(m.z)
	in, out := m.j.view.Put(v, n, len(m.z)), m.j.view.Alloc(n, len(m.z))
	defer array.Free(in, out)
	if err := m.j.inSweeps().Apply(ctx, out, in, make([]float64, n)); err != nil {
		return err
	}
	m.j.view.Download(dst, out)
	return nil
}

package surepipe

import (
	"context"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/internal/parallel"
	"surepipe/loss"
	"surepipe/problems"
	"surepipe/stages"
	"surepipe/study"
	"surepipe/study/load"
)

// MemoryError says that an estimate needs more memory than [Compute].Memory.
type MemoryError = array.MemoryError

// EstimateBytes is about how much memory an estimate takes at most, with its data, by the sizes of these, of
// which only headers are read: one to four times the peak, of specifications up to twelve times. A service
// admits by it; with [Compute].Memory a call that needs more ends with a [MemoryError].
func EstimateBytes(ctx context.Context, d Data, o Options) (int64, error) {
	return call(ctx, func() (int64, error) {
		r, err := o.request()
		if err != nil {
			return 0, err
		}
		d.of(r)
		s, err := r.Sizes(ctx)
		return o.bytes(s, r.Specification), err
	}, nil)
}

// sides are the sizes from which memory follows: m x n is the matrix, of at least as many rows as columns where it is
// turned, s the shorter side, and d how many values y has.
type sides struct{ m, n, s, d float64 }

// needs are the numbers of float64 that fits take beside their data, measured (GOGC=10) on small and large ones of each
// problem. The constants are what the smallest take, squares of the shorter side factorizations, squares of d exact
// traces of small images, and large multiples of d images of probes.
var needs = map[Problem]func(s sides, o *Options) float64{
	OLS:              dense,
	Ridge:            dense,
	Lasso:            sparse,
	ElasticNet:       sparse,
	GroupLasso:       grouped,
	FusedLasso:       grouped,
	GeneralizedLasso: dense,
	SVT:              func(s sides, _ *Options) float64 { return 34*s.d + min(42*s.d, 100e3) + 4*s.s*s.s + 30e3 },
	Completion: func(s sides, o *Options) float64 { // a Schur complement of order s k - k(k-1)/2
		order := min(s.s*(s.s+1)/2, mostOrder)
		eigenvectors := 0.0                                               // of J, where b is short and all of the fit
		open := len(o.Effects) == 0 || slices.Contains(o.Effects, "auto") // none are tried
		if p := s.m * s.n; p <= 256 && (open || slices.Contains(o.Effects, "none")) {
			eigenvectors = 30 * p * p
		}
		return 2.8*order*order + eigenvectors + 245*s.d + 90e3
	},
	RobustPCA: func(s sides, _ *Options) float64 { return 110*s.d + min(400*s.d, 10.5e6) + 70e3 },
	TV1D:      func(s sides, _ *Options) float64 { return 54*s.d + 30e3 },
	Trend:     func(s sides, _ *Options) float64 { return 260*s.d + 50e3 },
	Whittaker: func(s sides, _ *Options) float64 { return 82*s.d + 25e3 },
	TV2D: func(s sides, o *Options) float64 {
		exact := 8*math.Pow(min(s.d, 450), 2) + 60e3
		if o.Anisotropic {
			return 70*s.d + exact
		}
		return min(800*s.d, 260*s.d+1e6, 110*s.d+1e8) + exact // with a factor for interior points, of bounded size
	},
}

// garbage is what has not been collected yet, beside what is in use.
const garbage = 1.25

// mostOrder is the largest order of a completion's exact leverages.
const mostOrder = 4096

// dense are fits that use all columns.
func dense(s sides, _ *Options) float64 {
	copies := 1.0
	if s.m < s.n {
		copies = 5
	}
	return copies*s.m*s.n + 16*s.s*s.s + min(s.d, parallel.Panel)*s.s + 70*s.d + 20e3
}

// sparse are fits by some of the columns, as many as the shorter side at weights near 0.
func sparse(s sides, o *Options) float64 {
	return s.m*s.n + min(27*s.s*s.s, 250e3+2*o.few()*s.s*s.s) + 60*s.d + 20e3
}

// grouped are fits by some groups of columns, whose coordinates have curvature.
func grouped(s sides, o *Options) float64 {
	copies := 1.0
	if s.m < s.n {
		copies = 5
	}
	return copies*s.m*s.n + min(27*s.s*s.s, 250e3+3*o.few()*s.s*s.s) + 40*s.d + 20e3
}

// ofSpec is the need of a specification by its kind, or of parts of one's own where it is nil: of fits with dense
// matrices, which small images behind operators have, and large ones whose penalties have parts.
func ofSpec(spec *problems.Spec) func(s sides, o *Options) float64 {
	return func(s sides, o *Options) float64 {
		need := dense(s, o) + 100*s.d + 100e3
		switch d2 := s.d * s.d; {
		case spec == nil || spec.Regression() || spec.Plain() && spec.Terms() == 0:
			if s.m < s.n {
				need += 25 * s.m * s.n
			}
		case spec.Terms() == 0:
			need += 600*s.d + min(6*d2, 6e6)
		case spec.Plain() && spec.Terms() == 1 && s.m == 0: // a sequence
			need += 240 * s.d
		case spec.Plain() && spec.Terms() == 1:
			need += 800*s.d + min(25*d2, 5e6)
		case s.d > mostDense:
			need += 900*s.d + 16e6
		default:
			need += 900*s.d + min(150*d2, 100*d2+10e6)
		}
		return need
	}
}

// mostDense is the size up to which the derivative of several terms is found by dense matrices.
const mostDense = 2048

// few is 1 where the weight leaves few columns, from a hundredth of its maximum on, and 4 where all may remain.
func (o *Options) few() float64 {
	if w, err := problems.ParseWeight(o.Lambda); o.Lambda != "" && (err != nil || !w.OfMax || w.Value < 0.01) {
		return 4
	}
	return 1
}

func (o *Options) bytes(s load.Sizes, spec *problems.Spec) int64 {
	of := sides{m: s.Rows, n: s.Columns, s: min(s.Rows, s.Columns), d: s.Signal}
	if o.Problem == Completion && s.Entries > 0 {
		of.d = s.Entries
	}
	need, known := needs[o.Problem]
	if !known {
		need = ofSpec(spec)
	}
	work := need(of, o)
	k, _ := loss.KindOf(o.Loss)
	if of.d <= stages.MostRefitted && (!k.Squared() || o.LeaveOneOut) { // by fits that leave garbage behind
		work += 4e3 * of.d
	}
	if !k.Squared() || k.Columns {
		work = 1.6*work + 60*of.d + min(40*of.s*of.s, 400e3+2*of.s*of.s) + 15e3
	}
	work *= garbage * float64(max(o.Parallel, 1))
	return int64(math.Min(8*(s.Numbers+s.Read+work), math.MaxInt64/2))
}

func (o *Options) admit(ctx context.Context, d Data) error {
	if o.Memory == 0 {
		return nil
	}
	need, err := EstimateBytes(ctx, d, *o)
	if err != nil {
		return err
	}
	if need > o.Memory {
		return study.Because(&MemoryError{Needed: need, Limit: o.Memory}, "--memory is %d bytes, but an estimate of "+
			"these data takes up to %d", o.Memory, need)
	}
	return nil
}

package stages

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/internal/lists"
	"surepipe/internal/parallel"
	"surepipe/loss"
	"surepipe/risk"
	"surepipe/risk/folds"
	"surepipe/solve/engine"
)

// Together says which observations are left out together: Unit numbers the unit of each from 0, and Units is how many
// there are. The zero value leaves out none.
type Together struct {
	Unit  []int
	Units int
}

// ErrNoBlocks says that the blocks of D mu_hat, which leave-group-out needs, are not known.
var ErrNoBlocks = fmt.Errorf("the blocks of the derivative are known only where its linear system is factored, for at "+
	"most %d observations where its trace or diagonal is exact, or with the exact trace; choose cv", mostImaged)

// mostDecided is the largest eigenvalue of D_GG up to which one Newton step tells the fit without the group, and
// mostOfThem the share of the observations that may be in groups beyond it. Of 54 LASSO fits, with the squared, the
// logistic and the Poisson loss, to 40 groups of about 6 rows with 60 to 400 columns, the mean was then within 10% of
// refits or well within its own bar; beyond, off by 40% and more.
const mostDecided, mostOfThem = 0.8, 0.25

// mostImaged is the number of observations up to which blocks come from the images of unit vectors.
const mostImaged = 1 << 12

// blocks makes the factored block of the observations at the given places, in the memory of another where it can.
type blocks func(places []int, in *risk.Block) (*risk.Block, error)

// blocks are those of the derivative of the problem that was asked for, for units of observations.
func (j *Job) blocks(ctx context.Context, t Together) (blocks, error) {
	d, known := len(j.Y), j.solution.Linearization.Closed()
	if each := loss.StructureOf(j.problem.Loss).Each; t.Units*each == d && known.Blocks != nil {
		all, err := known.Blocks(each)
		if err != nil {
			return nil, err
		}
		if all = j.asked(engine.Closed{Blocks: all}).Blocks; all != nil {
			return func(places []int, in *risk.Block) (*risk.Block, error) {
				return in, in.Set(each, all[places[0]*each:][:each*each])
			}, nil
		}
	}
	if known.Root != nil {
		inner, err := known.Root()
		if err != nil {
			return nil, err
		}
		if root := j.asked(engine.Closed{Root: inner}).Root; root != nil {
			k, all := max(len(root)/d, 1), transposed(root, d)
			return func(places []int, _ *risk.Block) (*risk.Block, error) {
				n, first := len(places), places[0]
				if places[n-1] == first+n-1 {
					return risk.BlockOf(mat.NewDense(n, k, all[first*k:(first+n)*k]))
				}
				rows := make([]float64, 0, n*k)
				for _, i := range places {
					rows = append(rows, all[i*k:(i+1)*k]...)
				}
				return risk.BlockOf(mat.NewDense(n, k, rows))
			}, nil
		}
	}
	if exact := known.Known || known.Diagonal != nil; !j.settings.Plan.Exact() && !(exact && d <= mostImaged) {
		return nil, ErrNoBlocks
	}
	return func(places []int, in *risk.Block) (*risk.Block, error) {
		m, block := len(places), make([]float64, len(places)*len(places))
		for from := 0; from < m; from += hutch.DefaultBatch {
			some := places[from:min(from+hutch.DefaultBatch, m)]
			images, err := j.imagesOfUnits(ctx, some)
			if err != nil {
				return nil, err
			}
			for n := range some {
				for at, i := range places {
					block[(from+n)*m+at] = images[n*d+i]
				}
			}
		}
		return in, in.Set(m, block)
	}, nil
}

// transposed has the columns of rows of length d, one after the other; a column of 0 where there are no rows.
func transposed(rows []float64, d int) []float64 {
	k := max(len(rows)/d, 1)
	out := make([]float64, d*k)
	parallel.Ranges(d, parallel.Rows(8), func(lo, hi int) {
		for r := range len(rows) / d {
			for i, v := range rows[r*d+lo : r*d+hi] {
				out[(lo+i)*k+r] = v
			}
		}
	})
	return out
}

func (j *Job) imagesOfUnits(ctx context.Context, places []int) ([]float64, error) {
	v := j.view.Alloc(len(places), len(j.Y))
	for n, i := range places {
		hutch.UnitVectors(v.Rows(n, n+1), i)
	}
	return j.images(ctx, v)
}

// images are D mu_hat v of the problem that was asked for, for vectors v, which it frees.
func (j *Job) images(ctx context.Context, v array.Batch) ([]float64, error) {
	image := j.view.Alloc(v.K(), v.N())
	defer array.Free(v, image)
	err := j.problem.Rewriting().Images(image, v, func(dst, v array.Batch) error {
		return j.inSweeps().Apply(ctx, dst, v, make([]float64, v.K()))
	})
	if err != nil {
		return nil, err
	}
	return image.ToHost(), j.view.Err()
}

// leaveGroups sets leave-group-out, where it was asked for, from the residuals of observations in units of whitened
// ones, or what takes their place. predict sets left, the whitened values without the groups, to the errors of
// predicting the observations.
func (j *Job) leaveGroups(ctx context.Context, r *Risk, whitened func(i int) (float64, error),
	predict func(whitened, left []float64)) error {
	t := j.settings.Together
	if t.Units == 0 {
		return nil
	}
	var many atomic.Int64
	errs, mean, sums, err := j.leaveTogether(ctx, t, whitened, predict, func(places []int, block *risk.Block) {
		if block.Most() > mostDecided {
			many.Add(int64(len(places)))
		}
	})
	decided, all := many.Load(), j.refitsAll(t.Units)
	if err == nil && all {
		if _, err = j.refitEach(ctx, t, r.MuHat, errs); err == nil {
			sums = t.sums(errs)
			mean = risk.OverUnits(sums, len(errs))
		}
	}
	if err == nil && !all && !j.linear() && float64(decided) > mostOfThem*float64(len(j.Y)) {
		err = fmt.Errorf("%d of %d observations are in groups that decide more than %g of a direction of their own "+
			"fit, and one Newton step does not tell fits without them: raise the weight of the regularizer, or "+
			"choose cv", decided, len(j.Y), mostDecided)
	}
	if err != nil {
		r.LGOErr = err
		return mustEnd(ctx, err)
	}
	r.LGO, r.LeftOutTogether = &mean, errs
	if c := j.settings.Compare; c != nil && c.Criterion.Rule().Blocks {
		j.traces.losses, j.traces.units = sums, len(sums)
	}
	return nil
}

// mustEnd is an error that ends the work on the sample: that of the context, or a panic.
func mustEnd(ctx context.Context, err error) error {
	if p := new(PanicError); errors.As(err, &p) {
		return err
	}
	return ctx.Err()
}

// leaveTogether are the errors of predicting observations without their units, with their mean and their sums over
// units times Units/d. each sees the block of every unit, several at a time.
func (j *Job) leaveTogether(ctx context.Context, t Together, whitened func(i int) (float64, error),
	predict func(whitened, left []float64), each func(places []int, block *risk.Block)) (errs []float64,
	mean risk.CrossValidation, sums []float64, err error) {
	all, left := make([]float64, len(j.Y)), make([]float64, len(j.Y))
	err = j.eachUnit(ctx, t, func(places []int, blocks blocks, w *unitMemory) (err error) {
		w.rest = lists.Resize(w.rest, len(places))
		for n, i := range places {
			if w.rest[n], err = whitened(i); err != nil {
				return err
			}
			all[i] = w.rest[n]
		}
		block, err := blocks(places, &w.block)
		if err != nil {
			return err
		}
		each(places, block)
		block.LeftOut(w.rest)
		for n, v := range w.rest {
			left[places[n]] = v
		}
		return nil
	})
	if err != nil {
		return nil, mean, nil, err
	}
	predict(all, left)
	sums = t.sums(left)
	if mean = risk.OverUnits(sums, len(left)); math.IsNaN(mean.Mean) || math.IsInf(mean.Mean, 0) {
		err = errors.New("one Newton step towards a fit without a group leaves the range of the loss")
	}
	return left, mean, sums, err
}

// sums are those of the values of each unit.
func (t Together) sums(values []float64) []float64 {
	sums := make([]float64, t.Units)
	for i, v := range values {
		sums[t.Unit[i]] += v
	}
	return sums
}

// Units go to a goroutine in about unitChunks chunks or more, of at most mostUnits.
const unitChunks, mostUnits = 32, 64

// unitMemory is that of one unit after the other.
type unitMemory struct {
	block risk.Block
	rest  []float64
}

// eachUnit calls f for every unit with its observations, several at a time, until one fails.
func (j *Job) eachUnit(ctx context.Context, t Together, f func(places []int, of blocks, w *unitMemory) error) error {
	of, err := j.blocks(ctx, t)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	units := folds.Members(t.Unit, t.Units)
	for some := range slices.Chunk(units, max(min(len(units)/unitChunks, mostUnits), 1)) {
		g.Go(func() error {
			return Guard(func() error {
				w := new(unitMemory)
				for _, places := range some {
					if ctx.Err() != nil {
						return ctx.Err()
					}
					if err := f(places, of, w); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	return g.Wait()
}

// errWeightless says that an observation without weight is in a group.
var errWeightless = errors.New("an observation has no weight, or its loss no curvature, so that the derivative does " +
	"not show what its group means for it; choose cv")

// leaveGroupsSquared is leaveGroups for the squared loss, by the residuals of the problem, and leave-one-out where
// observations have several entries each.
func (j *Job) leaveGroupsSquared(ctx context.Context, r *Risk, residuals func() []float64) error {
	root, inverse := loss.Roots(loss.Weighing(j.problem.Loss))
	whitened := func(i int) (float64, error) {
		v := residuals()[i]
		if len(root) == 0 {
			return v, nil
		}
		if root[i] == 0 {
			return 0, errWeightless
		}
		return root[i] * v, nil
	}
	predict := func(_, left []float64) {
		if len(root) > 0 {
			floats.Mul(left, inverse)
		}
		floats.Mul(left, left)
	}
	if err := j.leaveGroups(ctx, r, whitened, predict); err != nil || !j.several() {
		return err
	}
	return j.leaveEach(ctx, r, whitened, predict)
}

// several says that no diagonal tells what leaving an observation out does.
func (j *Job) several() bool { return loss.StructureOf(j.problem.Loss).Several() }

// leaveGroupsOf is leaveGroups for another loss. With the slopes s, C = A H^{-1} A* and the whitened D = W^{1/2} C
// W^{1/2} one Newton step without the group moves its linear predictors by
//
//	(I - C_GG W_G)^{-1} C_GG s_G = W_G^{-1/2} ((I - D_GG)^{-1} - I) W_G^{-1/2} s_G.
func (j *Job) leaveGroupsOf(ctx context.Context, r *Risk, f *flatness) error {
	return j.leaveGroups(ctx, r, func(i int) (float64, error) {
		if !(f.w[i] > 0) {
			return 0, errWeightless
		}
		return f.slopes[i] / math.Sqrt(f.w[i]), nil
	}, func(whitened, left []float64) {
		for i, v := range left {
			left[i] = f.z[i] + (v-whitened[i])/math.Sqrt(f.w[i])
		}
		f.losses(left)
	})
}

// leaveUnits sets leave-one-out and leave-group-out for a loss whose observations have several entries each, as
// leaveGroupsOf: with the blocks R_i of l^(2) = R*R, S = R C R* and the slopes s the linear predictors move by the dz
// with
//
//	R_G dz = ((I - S_GG)^{-1} - I) R_G*^+ s_G.
func (j *Job) leaveUnits(ctx context.Context, r *Risk, known loss.Structure) error {
	root, err := known.Coupled.Root(j.solution.MuHat, j.y)
	if err != nil {
		return err
	}
	slope := j.view.Alloc(1, len(j.Y))
	defer slope.Free()
	j.problem.Loss.Gradient(slope, j.solution.MuHat, j.y)
	pull := slope.ToHost()
	root.InverseAdjoint(pull, pull)
	whitened := func(i int) (float64, error) { return pull[i], nil }
	predict := func(whitened, left []float64) {
		floats.Sub(left, whitened)
		root.Inverse(left, left)
		floats.Add(left, r.MuHat)
		known.Parts(left, left, j.Y)
	}
	if err := j.leaveGroups(ctx, r, whitened, predict); err != nil {
		return err
	}
	return j.leaveEach(ctx, r, whitened, predict)
}

func (j *Job) leaveEach(ctx context.Context, r *Risk, whitened func(i int) (float64, error),
	predict func(whitened, left []float64)) error {
	if !j.settings.ALO {
		return nil
	}
	var single Together
	single.Unit, single.Units = folds.Folds{Each: loss.StructureOf(j.problem.Loss).Each}.Units(len(j.Y))
	losses, mean, sums, err := j.leaveTogether(ctx, single, whitened, predict, func([]int, *risk.Block) {})
	if errors.Is(err, risk.ErrGroupDetermines) {
		err = risk.ErrLeverage
	}
	if err == nil {
		r.Refits, err = j.refitEach(ctx, single, r.MuHat, losses)
	}
	if err != nil {
		r.noLeaveOneOut(err, true)
		return mustEnd(ctx, err)
	}
	if r.Refits > 0 {
		sums = single.sums(losses)
		mean = risk.OverUnits(sums, len(losses))
	}
	r.ALO, r.ALOStdErr, r.ALOProbesErr, j.left = mean.Mean, mean.StdErr, 0, losses
	if c := j.settings.Compare; c != nil && c.Criterion.Rule().Diagonal {
		j.traces.losses, j.traces.units = sums, len(sums)
	}
	return nil
}

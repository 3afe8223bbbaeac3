package stages

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/loss"
	"surepipe/prox"
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

// blocks makes the factored block of the observations at the given places.
type blocks func(places []int) (*risk.Block, error)

// blocks are those of the derivative of the problem that was asked for.
func (j *Job) blocks(ctx context.Context) (blocks, error) {
	d, known := len(j.Y), j.solution.Linearization.Closed()
	if known.Root != nil {
		inner, err := known.Root()
		if err != nil {
			return nil, err
		}
		if root := j.asked(engine.Closed{Root: inner}).Root; root != nil {
			return func(places []int) (*risk.Block, error) {
				r := mat.NewDense(max(len(root)/d, 1), len(places), nil)
				for k := range len(root) / d {
					for at, i := range places {
						r.Set(k, at, root[k*d+i])
					}
				}
				return risk.BlockOf(r)
			}, nil
		}
	}
	if exact := known.Known || known.Diagonal != nil; !j.settings.Plan.Exact() && !(exact && d <= mostImaged) {
		return nil, ErrNoBlocks
	}
	return func(places []int) (*risk.Block, error) {
		m, block := len(places), mat.NewDense(len(places), len(places), nil)
		for from := 0; from < m; from += hutch.DefaultBatch {
			some := places[from:min(from+hutch.DefaultBatch, m)]
			images, err := j.imagesOfUnits(ctx, some)
			if err != nil {
				return nil, err
			}
			for n := range some {
				for at, i := range places {
					block.Set(from+n, at, images[n*d+i])
				}
			}
		}
		return risk.BlockFrom(block)
	}, nil
}

// imagesOfUnits are those of the unit vectors of the places under the derivative of the problem that was asked for.
func (j *Job) imagesOfUnits(ctx context.Context, places []int) ([]float64, error) {
	v, image := j.view.Alloc(len(places), len(j.Y)), j.view.Alloc(len(places), len(j.Y))
	defer v.Free()
	defer image.Free()
	for n, i := range places {
		hutch.UnitVectors(v.Rows(n, n+1), i)
	}
	err := j.problem.Rewriting().Images(image, v, func(dst, v array.Batch) error {
		return j.inSweeps().Apply(ctx, dst, v, make([]float64, v.K()))
	})
	if err != nil {
		return nil, err
	}
	return image.ToHost(), j.view.Err()
}

// leaveGroups sets leave-group-out, where it was asked for. r_i is the residual of observation i in units of whitened
// ones, or what takes its place, and left is the error of predicting the observation by its left-out value.
func (j *Job) leaveGroups(ctx context.Context, r *Risk, whitened func(i int) (float64, error),
	left func(i int, whitened, leftOut float64) float64) error {
	t := j.settings.Together
	if t.Units == 0 {
		return nil
	}
	var decided atomic.Int64
	errs, sums := make([]float64, len(j.Y)), make([]float64, t.Units)
	err := j.eachUnit(ctx, func(u int, places []int, blocks blocks) (err error) {
		rest := make([]float64, len(places))
		for n, i := range places {
			if rest[n], err = whitened(i); err != nil {
				return err
			}
		}
		block, err := blocks(places)
		if err != nil {
			return err
		}
		out, err := block.LeftOut(rest)
		if block.Most() > mostDecided {
			decided.Add(int64(len(places)))
		}
		for n, i := range places {
			if err == nil {
				errs[i] = left(i, rest[n], out[n])
				sums[u] += errs[i]
			}
		}
		return err
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	linear := loss.Quadratic(j.problem.Loss) && prox.StructureOf(j.problem.R).Quadratic.Known // then this is exact
	if n := decided.Load(); err == nil && !linear && float64(n) > mostOfThem*float64(len(j.Y)) {
		err = fmt.Errorf("%d of %d observations are in groups that decide more than %g of a direction of their own "+
			"fit, and one Newton step does not tell fits without them: raise the weight of the regularizer, or "+
			"choose cv", n, len(j.Y), mostDecided)
	}
	mean := risk.OverUnits(sums, len(j.Y))
	if err == nil && (math.IsNaN(mean.Mean) || math.IsInf(mean.Mean, 0)) {
		err = errors.New("one Newton step towards a fit without a group leaves the range of the loss")
	}
	if err != nil {
		if p := new(PanicError); errors.As(err, &p) {
			return err
		}
		r.LGOErr = err
		return nil
	}
	r.LGO, r.LeftOutTogether = &mean, errs
	if c := j.settings.Compare; c != nil && c.Criterion.Rule().Blocks {
		j.traces.losses, j.traces.units = sums, len(sums)
	}
	return nil
}

// eachUnit calls f for every unit with its observations, several at a time, until one fails.
func (j *Job) eachUnit(ctx context.Context, f func(u int, places []int, of blocks) error) error {
	of, err := j.blocks(ctx)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for u, places := range folds.Members(j.settings.Together.Unit, j.settings.Together.Units) {
		g.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return Guard(func() error { return f(u, places, of) })
		})
	}
	return g.Wait()
}

// errWeightless says that an observation without weight is in a group.
var errWeightless = errors.New("an observation has no weight, or its loss no curvature, so that the derivative does " +
	"not show what its group means for it; choose cv")

// leaveGroupsSquared is leaveGroups for the squared loss, by the residuals of the problem.
func (j *Job) leaveGroupsSquared(ctx context.Context, r *Risk, residuals func() []float64) error {
	root, inverse := loss.Roots(loss.Weighing(j.problem.Loss))
	return j.leaveGroups(ctx, r, func(i int) (float64, error) {
		v := residuals()[i]
		if len(root) == 0 {
			return v, nil
		}
		if root[i] == 0 {
			return 0, errWeightless
		}
		return root[i] * v, nil
	}, func(i int, _, leftOut float64) float64 {
		if len(root) > 0 {
			leftOut *= inverse[i]
		}
		return leftOut * leftOut
	})
}

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
	}, func(i int, whitened, leftOut float64) float64 {
		return f.known.At(i, f.z[i]+(leftOut-whitened)/math.Sqrt(f.w[i]), f.y[i])
	})
}

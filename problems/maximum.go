package problems

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/problems/spec"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/space"
)

// To find a maximum, z is projected on at most this many columns of A, with at most this many
// entries in all. They take some seconds, and 128 MiB.
const (
	maxUnpenalized       = 256
	maxUnpenalizedValues = 1 << 24
)

// The fit by the columns without a penalty has the tolerance fitTol, and must come within mostOff of its optimum.
const (
	fitTol  = 1e-12
	mostOff = 1e-6
)

// maximizer computes the maxima of weights at one y.
type maximizer struct {
	*assembly
	penalties []*spec.Penalty
	// z is w (y - P y), as residual returns it, and g is A* z; nil before they are needed.
	z, g []float64
}

// zeroMaximum says that a maximum is 0, and why.
type zeroMaximum struct{ why string }

func (z *zeroMaximum) Error() string { return "its maximum is 0 at this y: " + z.why }

// positive is a function that computes a maximum, with a [zeroMaximum] where that is 0, or rounding errors of a
// constant signal.
func (m *maximizer) positive(maximum func() (float64, error)) func() (float64, error) {
	if maximum == nil {
		return nil
	}
	return func() (float64, error) {
		v, err := maximum()
		if err != nil {
			return v, err
		}
		least, most := slices.Min(m.data.Y), slices.Max(m.data.Y)
		size := max(-least, most)
		constant, signal := most-least <= constantSteps*0x1p-52*size, linops.StructureOf(m.p.Operator).Identity
		switch {
		case v > 0 && !(signal && constant && v <= smallMaximum*size):
			return v, nil
		case size == 0:
			return 0, &zeroMaximum{"y is 0 everywhere, and so is the estimate at every weight"}
		case most == least:
			return 0, &zeroMaximum{"y is constant, and so is the estimate at every weight; is it the column, or the " +
				"array, that was meant?"}
		case constant:
			return 0, &zeroMaximum{fmt.Sprintf("y is constant but for rounding errors, from %.17g to %.17g", least,
				most)}
		}
		if c := m.data.Coordinates; c.Lower != nil || c.Upper != nil {
			return 0, &zeroMaximum{"what has no penalty fits y, or no column of X is correlated with y in a " +
				"direction that the bounds of its coefficient allow"}
		}
		return 0, &zeroMaximum{"what has no penalty fits y, or nothing in X is correlated with y"}
	}
}

// A signal is constant where it varies by at most constantSteps steps of floating point numbers; a maximum of at most
// smallMaximum of its size is then sums of rounding errors.
const (
	constantSteps = 16
	smallMaximum  = 0x1p-20
	// aboveFit is added to a maximum that a fit of what has no penalty determines, over that, whose error would leave
	// coefficients of 1e-13 there.
	aboveFit = 1e-10
)

// of returns a function that computes the smallest weight of that name at which the blocks of b
// that use it are 0; nil where no penalty on them is a norm.
func (m *maximizer) of(name string) func() (float64, error) {
	if m.parts.Behind != nil {
		return m.behindMaximum(name)
	}
	if !slices.ContainsFunc(m.penalties, func(p *spec.Penalty) bool { return p.Bears(name) }) {
		return nil
	}
	return func() (float64, error) {
		if m.z == nil {
			free, err := m.unpenalized(name)
			if err != nil {
				return 0, err
			}
			if m.z, err = m.slope(free); err != nil {
				return 0, spec.WeightErrorf(name, "is given as a multiple of its maximum, which is not known: %v", err)
			}
		}
		p, source := m.penalties[0], m.parts.Source
		if len(m.penalties) == 1 && p.DualAt != nil && source != nil && source.Places != nil {
			v, err := p.DualAt(m.p.dev, m.z, source.Places)
			return v / (p.Factor * p.Norm.Scale), err
		}
		if m.g == nil {
			m.g = m.gradient(m.z)
		}
		v, err := largest(m.penalties, name, m.g)
		if !m.p.Loss.Squared() {
			v *= 1 + aboveFit
		}
		return v, err
	}
}

// ridgeTop is the top of a path of ridge weights over the sum of the eigenvalues of A* A, at which no direction keeps
// more than a tenth of its fit. Where these are not known, or weigh observations by a loss, slopeTop is that over the
// top of the LASSO's path, as in Friedman, Hastie and Tibshirani (2010).
const (
	ridgeTop = 10
	slopeTop = 1000
)

// top is the maximum of a weight, or where it has none, as that of a sum of squares, the top of its path.
func (m *maximizer) top(name string) (float64, error) {
	if maximum := m.of(name); maximum != nil {
		return maximum()
	}
	if m.parts.Behind != nil {
		return 0, spec.WeightErrorf(name, "is missing, and has no maximum from which a path could begin")
	}
	free := m.free()
	z, err := m.slope(free)
	if err != nil {
		return 0, err
	}
	slope := floats.Norm(m.gradient(z), math.Inf(1))
	if squares := linops.StructureOf(m.p.Operator).ColumnNorms2; slope > 0 && squares != nil && m.p.Loss.Squared() {
		columns := squares()
		for _, j := range free {
			columns[j] = 0
		}
		return ridgeTop * floats.Sum(columns), nil
	}
	return slopeTop * slope, nil
}

// unpenalized lists the coordinates of b that remain free at the maximum of a weight and on whose
// columns of A z must be projected. It rejects other kinds of free coordinates.
func (m *maximizer) unpenalized(name string) (free []int, err error) {
	if linops.StructureOf(m.p.Operator).Columns.Known && m.roots == nil && m.p.Loss.Squared() {
		return nil, nil
	}
	for _, p := range m.penalties {
		if p.Free && p.Unpenalized == nil || p.Norm.Name == "" && len(p.Unpenalized) < p.N {
			return nil, spec.WeightErrorf(name, "is given as a multiple of its maximum, which is not known: the "+
				"penalty%s leaves coordinates of b free at %s's maximum, and the operator's columns are not "+
				"orthogonal; expected a number", m.AtLine(p.Line), name)
		}
	}
	free = m.free()
	if n := len(free); n > maxUnpenalized || n*m.p.D > maxUnpenalizedValues {
		return nil, spec.WeightErrorf(name, "is given as a multiple of its maximum, which is not known for %d "+
			"coordinates of b without a penalty and %d values in y: expected a number, or at most "+
			"%d such coordinates", n, m.p.D, min(maxUnpenalized, maxUnpenalizedValues/m.p.D))
	}
	return free, nil
}

// free lists the coordinates of b without a penalty.
func (m *maximizer) free() (free []int) {
	at := 0
	for _, p := range m.penalties {
		for _, j := range p.Unpenalized {
			free = append(free, at+j)
		}
		at += p.N
	}
	return free
}

// byColumns is the operator of some columns of A alone, until it is released.
func (m *maximizer) byColumns(columns ...int) (op linops.Operator, release func()) {
	on := space.Coordinates(m.p.dev, m.p.P+m.p.extra(), columns)
	of, _ := linops.On(m.p.dev, m.p.Operator, on)
	return of, func() {
		of.Release()
		on.Release()
	}
}

func (m *maximizer) gradient(z []float64) []float64 {
	if linops.StructureOf(m.p.Operator).Identity {
		return z
	}
	from, to := m.p.dev.Alloc(1, len(z)), m.p.dev.Alloc(1, m.p.P+m.p.extra())
	defer array.Free(from, to)
	m.p.dev.Upload(from, z)
	m.p.Operator.Adjoint(to, from)
	g := to.ToHost()
	if m.uncorrelated(g, floats.Norm(z, 2)) {
		clear(g)
	}
	return g
}

// uncorrelated reports that products g of columns and z are rounding errors. As a rule the column of the largest
// shows that they are not.
func (m *maximizer) uncorrelated(g []float64, size float64) bool {
	known := linops.StructureOf(m.p.Operator)
	if known.ColumnNorms2 == nil || known.On == nil || len(g) == 0 {
		return false
	}
	dev, length2 := m.p.dev, make([]float64, 1)
	j := floats.MaxIdx(lists.Map(g, math.Abs))
	op, release := m.byColumns(j)
	defer release()
	x := linops.Images(dev, op)
	defer x.Free()
	if dev.Dot(length2, x, x); !(math.Abs(g[j]) <= roundingOfRest*math.Sqrt(length2[0])*size) {
		return false
	}
	for j, v := range known.ColumnNorms2() {
		if !(math.Abs(g[j]) <= roundingOfRest*math.Sqrt(v)*size) {
			return false
		}
	}
	return true
}

// slope is -l'(z; y) at the fit z by some columns of A alone, whose coordinates have no penalty; at 0
// where there are none.
func (m *maximizer) slope(columns []int) ([]float64, error) {
	p, dev := m.p, m.p.dev
	if p.Loss.Squared() {
		return m.residual(columns)
	}
	y, z := dev.Alloc(1, p.D), dev.Alloc(1, p.D)
	defer array.Free(y, z)
	dev.Upload(y, m.y)
	dev.Fill(z, 0)
	if len(columns) > 0 {
		if err := m.fitBy(columns, z, y); err != nil {
			return nil, err
		}
	}
	p.loss.Gradient(z, z, y)
	out := z.ToHost()
	floats.Scale(-1, out)
	return out, dev.Err()
}

// residual is w (y - P y), where w are the weights of the loss, if any, and P projects on the span of some columns of A
// in their inner product.
func (m *maximizer) residual(columns []int) ([]float64, error) {
	if m.roots == nil && len(columns) == 0 {
		return m.y, nil
	}
	rooted := func(x []float64) []float64 {
		if m.roots != nil {
			floats.Mul(x, m.roots)
		}
		return x
	}
	y := rooted(slices.Clone(m.y))
	if len(columns) == 0 {
		return rooted(y), nil
	}
	dev := m.p.dev
	op, release := m.byColumns(columns...)
	defer release()
	x := linops.Images(dev, op)
	for i := range columns {
		dev.Upload(x.Rows(i, i+1), rooted(x.Rows(i, i+1).ToHost()))
	}
	size := floats.Norm(y, 2)
	basis, left := dev.Alloc(x.K(), x.N()), dev.Put(y, 1, x.N())
	defer array.Free(x, basis, left)
	rank, err := hutch.Orthonormalize(basis, x)
	if err != nil {
		return nil, err
	}
	hutch.Deflate(left, left, basis.Rows(0, rank))
	rest := left.ToHost()
	if floats.Norm(rest, 2) <= roundingOfRest*size { // rounding errors do not count as a maximum
		clear(rest)
	}
	return rooted(rest), dev.Err()
}

func (m *maximizer) fitBy(columns []int, z, y array.Batch) error {
	p, dev := m.p, m.p.dev
	op, release := m.byColumns(columns...)
	defer release()
	ctx := m.ctx
	problem := solve.Problem{A: op, Loss: p.loss, R: prox.NewSquaredL2(0), Device: dev}
	solver, err := solve.New(ctx, solve.Default(problem), problem, solve.Options{Tol: fitTol})
	if err != nil {
		return err
	}
	defer solver.Release()
	sol, err := solver.Solve(ctx, y, solve.From{})
	if err != nil {
		return err
	}
	defer sol.Release()
	if sol.Optimality > mostOff {
		return fmt.Errorf("the fit by the coordinates without a penalty has not converged; expected a number")
	}
	dev.Copy(z, sol.MuHat)
	return nil
}

// behindMaximum returns a function that computes a weight at which K b = 0: with b the solution there
// and u of least norm among those with K* u = A* (y - A b), the dual norm of u. Where the rows of K
// depend on each other, as those of an image's differences do, another u may have a smaller dual norm,
// and the result is an upper bound of the smallest such weight. It is known where a single weight
// multiplies all terms, and, as that at which b = 0 without the other terms, where a norm of b itself
// has it and the other terms are norms: they are least at 0 too.
func (m *maximizer) behindMaximum(name string) func() (float64, error) {
	single := true
	for _, p := range m.penalties {
		if p.Dual == nil || p.Free && p.Unpenalized != nil {
			return nil
		}
		single = single && p.Norm.Name == name
	}
	if !single {
		return m.directMaximum(name)
	}
	return func() (float64, error) {
		y := m.p.dev.Alloc(1, len(m.y))
		defer y.Free()
		m.p.dev.Upload(y, m.y)
		u, err := solve.Multiplier(m.ctx, solve.Problem{A: m.p.Operator, Loss: m.p.loss, K: m.p.Behind,
			R: prox.Zero(), Device: m.p.dev}, y)
		if err != nil {
			return 0, spec.WeightErrorf(name, "is given as a multiple of its maximum, which could not be computed: %v",
				err)
		}
		defer u.Free()
		return largest(m.penalties, name, u.ToHost())
	}
}

// directMaximum is the weight at which norms of b itself, without an operator, hold b at 0.
func (m *maximizer) directMaximum(name string) func() (float64, error) {
	var direct []*spec.Penalty
	covered := 0
	for _, p := range m.penalties {
		if p.Direct && p.Norm.Name == name {
			direct, covered = append(direct, p), covered+p.N
		}
	}
	if covered != m.p.P {
		return nil
	}
	return func() (float64, error) {
		z, err := m.slope(nil)
		if err != nil {
			return 0, err
		}
		return largest(direct, name, m.gradient(z))
	}
}

// largest is the least weight of that name at which the norms that have it hold their blocks at 0, for
// the gradient g of all penalties' blocks.
func largest(penalties []*spec.Penalty, name string, g []float64) (float64, error) {
	top, at := 0.0, 0
	for _, p := range penalties {
		block := g[at:][:p.N]
		if at += p.N; !p.Bears(name) {
			continue
		}
		v, err := p.Dual(block)
		if err != nil {
			return 0, err
		}
		top = max(top, v/(p.Factor*p.Norm.Scale))
	}
	return top, nil
}

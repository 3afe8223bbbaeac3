package interior

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/krylov"
	"surepipe/solve/engine"
)

// iteratedSystem is a sparseSystem with an A*A that is known by products. Conjugate gradients solve with it, from the
// factor of the matrix with c in the place of A*A: what makes the matrix ill-conditioned near a solution is
// K* J^{-1} K.
// They stop where what is left of A*A b - A* y + K* u counts about as much in the duality gap as the products do
// ([leftOver]).
type iteratedSystem struct {
	*sparseSystem
	a   linops.Operator
	dev array.Device
}

// Iterated reports that interior points apply with conjugate gradients, where a cosine transform diagonalizes K*K and
// A's columns are about equally long, or with a factor alone, where A picks pixels.
func Iterated(p engine.Problem) bool {
	return besideSparse(p) && (linops.StructureOf(p.K).Cosines.Known() || normalDiagonal(p.A) != nil) &&
		linops.StructureOf(p.A).Dense == nil && engine.UnequalLengths2(p) == nil
}

// besideSparse reports that K may be sparse, and A*A is no multiple of I but has a known mean eigenvalue.
func besideSparse(p engine.Problem) bool {
	return !(linops.StructureOf(p.A).Columns.Value > 0) && sparseDifferences(p) && meanEigenvalue(p) > 0 &&
		conditionsOf(p) != nil
}

// meanEigenvalue is that of A*A; 0 where it is not known.
func meanEigenvalue(p engine.Problem) float64 {
	known := linops.StructureOf(p.A)
	if c := known.Columns.Value; c > 0 || known.ColumnNorms2 == nil {
		return c
	}
	return meanOf(known.ColumnNorms2())
}

func (s *iteratedSystem) start(b, aty []float64) { s.penalized(b, aty, s.factor()) }

func (s *iteratedSystem) normal(dst, b []float64) {
	x, to := s.dev.Alloc(1, len(b)), s.dev.Alloc(1, len(b))
	defer array.Free(x, to)
	s.dev.Upload(x, b)
	s.square(to, x)
	copy(dst, to.ToHost())
}

// square sets to = A*A x.
func (s *iteratedSystem) square(to, x array.Batch) {
	d, _ := s.a.Dims()
	z := s.dev.Alloc(1, d)
	defer z.Free()
	s.a.Forward(z, x)
	s.a.Adjoint(to, z)
}

func (s *iteratedSystem) small() smallness { return productsIterated }

func (s *iteratedSystem) factor() saddleFactor {
	return &iteratedNormal{s, s.sparseSystem.factor().(*sparseNormal)}
}

func (s *iteratedSystem) choice() engine.Choice {
	c := s.sparseSystem.choice()
	c.Chosen = "conjugate gradients, preconditioned by " + c.Chosen
	c.Reason = "K is sparse, and A*A is known by products: the preconditioner has its mean eigenvalue in its place"
	return c
}

// iteratedNormal is that of a solve.
type iteratedNormal struct {
	system *iteratedSystem
	*sparseNormal
}

func (f *iteratedNormal) solve(x, z, work []float64) {
	f.eliminated(x, z, work, f.gradients)
}

// The relative residual of conjugate gradients is between these.
const (
	mostLeft  = 0.1
	leastLeft = 1e-10
)

// gradients solves for x.
func (f *iteratedNormal) gradients(x []float64) {
	s := f.system
	size := floats.Norm(x, 2)
	rhs := s.dev.Alloc(1, len(x))
	defer rhs.Free()
	s.dev.Upload(rhs, x)
	_, err := krylov.CG(f.j.ctx, rhs, rhs, func(dst, b array.Batch) {
		s.square(dst, b)
		in, out := b.ToHost(), dst.ToHost()
		for j := range out {
			sum := -f.c[j] * in[j]
			for t := f.ptr[j]; t < f.ptr[j+1]; t++ {
				sum += f.value[t] * in[f.index[t]]
			}
			out[j] += sum
		}
		s.dev.Upload(dst, out)
	}, krylov.CGOptions{
		Tol: math.Min(math.Max(f.j.allowed/size, leastLeft), mostLeft),
		Precondition: func(dst, r array.Batch) {
			host := r.ToHost()
			f.order.Solve(&f.l, host)
			s.dev.Upload(dst, host)
		}})
	copy(x, rhs.ToHost())
	if err != nil {
		x[0] = math.NaN() // no direction
	}
}

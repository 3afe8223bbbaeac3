package pipeline_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/pipeline"
	"surepipe/prox"
	"surepipe/prox/lowrank"
	"surepipe/space"
	"surepipe/stages"
	"surepipe/verify"
	"surepipe/vjp"
)

// fuse counts the calls of a user's operator, regularizer and loss, and panics at one of them.
type fuse struct{ calls, at atomic.Int64 }

func (f *fuse) burn() {
	if f.calls.Add(1) == f.at.Load() {
		panic("the fuse has blown")
	}
}

// fragileOperator is an operator of which any call may panic, as may those of the operators that it
// makes.
type fragileOperator struct {
	linops.Operator
	f *fuse
	s linops.Structure
}

func newFragileOperator(a linops.Operator, f *fuse) *fragileOperator {
	s := linops.StructureOf(a)
	if normal := s.Normal; normal != nil {
		s.Normal = func(dst, b array.Batch) { f.burn(); normal(dst, b) }
	}
	if gram := s.Gram; gram != nil {
		s.Gram = func(dst array.Batch) { f.burn(); gram(dst) }
	}
	if solve := s.SolveNormal; solve != nil {
		s.SolveNormal = func(dst, rhs array.Batch, eta float64) bool { f.burn(); return solve(dst, rhs, eta) }
	}
	if norms := s.ColumnNorms2; norms != nil {
		s.ColumnNorms2 = func() []float64 { f.burn(); return norms() }
	}
	if dense := s.Dense; dense != nil {
		s.Dense = func() *mat.Dense { f.burn(); return dense() }
	}
	if on := s.On; on != nil {
		s.On = func(dev array.Device, t space.Space) linops.Restricted {
			f.burn()
			op := on(dev, t)
			if op == nil {
				return nil
			}
			return fragileRestricted{newFragileOperator(op, f), op}
		}
	}
	return &fragileOperator{a, f, s}
}

func (a *fragileOperator) Structure() linops.Structure { return a.s }
func (a *fragileOperator) Forward(dst, b array.Batch)  { a.f.burn(); a.Operator.Forward(dst, b) }
func (a *fragileOperator) Adjoint(dst, z array.Batch)  { a.f.burn(); a.Operator.Adjoint(dst, z) }

type fragileRestricted struct {
	*fragileOperator
	op linops.Restricted
}

func (a fragileRestricted) Bytes() int64 { return a.op.Bytes() }
func (a fragileRestricted) Release()     { a.op.Release() }

// fragileProx is a regularizer of which any call may panic, as may those of its derivatives and of
// the regularizers that it makes.
type fragileProx struct {
	prox.Prox
	f *fuse
}

func (p fragileProx) Eval(dst, v array.Batch, t float64) error {
	p.f.burn()
	return p.Prox.Eval(dst, v, t)
}

func (p fragileProx) Linearize(dst, v array.Batch, t float64) (prox.Derivative, error) {
	p.f.burn()
	j, err := p.Prox.Linearize(dst, v, t)
	if err != nil {
		return nil, err
	}
	return fragileDerivative{j, p.f}, nil
}

func (p fragileProx) Structure() prox.Structure {
	f, s := p.f, prox.StructureOf(p.Prox)
	if value := s.Value; value != nil {
		s.Value = func(b array.Batch) float64 { f.burn(); return value(b) }
	}
	if closure := s.Closure; closure != nil {
		s.Closure = func(set []int) []int { f.burn(); return closure(set) }
	}
	if on := s.On; on != nil {
		s.On = func(dev array.Device, t space.Space) (prox.Prox, error) {
			f.burn()
			q, err := on(dev, t)
			if q == nil || err != nil {
				return nil, err
			}
			return fragileProx{q, f}, nil
		}
	}
	if scale, gap := s.DualScale, s.FenchelGap; scale != nil {
		s.DualScale = func(b, g array.Batch, near float64) float64 { f.burn(); return scale(b, g, near) }
		s.FenchelGap = func(b, g array.Batch, t, near float64) float64 { f.burn(); return gap(b, g, t, near) }
	}
	return s
}

type fragileDerivative struct {
	prox.Derivative
	f *fuse
}

func (j fragileDerivative) Apply(dst, z array.Batch) { j.f.burn(); j.Derivative.Apply(dst, z) }

func (j fragileDerivative) Model() *prox.Model {
	j.f.burn()
	m := j.Derivative.Model()
	if m == nil {
		return nil
	}
	other := *m
	if other.Curvature != nil {
		other.Curvature = fragileCurvature{m.Curvature, j.f}
	}
	if m.Margin != nil {
		other.Margin = func(v array.Batch) float64 { j.f.burn(); return m.Margin(v) }
	}
	return &other
}

type fragileCurvature struct {
	prox.Curvature
	f *fuse
}

func (q fragileCurvature) Precondition(dst, image, z array.Batch) {
	q.f.burn()
	q.Curvature.Precondition(dst, image, z)
}
func (q fragileCurvature) Diagonal() []float64 { q.f.burn(); return q.Curvature.Diagonal() }
func (q fragileCurvature) Matrix() []float64   { q.f.burn(); return q.Curvature.Matrix() }

// fragileLoss is a loss of which any call may panic.
type fragileLoss struct {
	loss.Loss
	f *fuse
}

func (l fragileLoss) Value(z, y array.Batch) float64 { l.f.burn(); return l.Loss.Value(z, y) }
func (l fragileLoss) Gradient(dst, z, y array.Batch) { l.f.burn(); l.Loss.Gradient(dst, z, y) }

// fragile are problems of users' operators, regularizers and losses.
func fragile(t *testing.T, dev array.Device, f *fuse) map[string]func() (vjp.Problem, string, vjp.Options, func()) {
	gaussian := func(d, p int) *mat.Dense {
		rng := rand.New(rand.NewPCG(uint64(d), uint64(p)))
		x := mat.NewDense(d, p, nil)
		for i := range d {
			for j := range p {
				x.Set(i, j, rng.NormFloat64()/math.Sqrt(float64(d)))
			}
		}
		return x
	}
	must := func(r prox.Prox, err error) prox.Prox {
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	dense := func(d, p int, r func() prox.Prox, solver string, l loss.Loss, o vjp.Options) func() (vjp.Problem,
		string, vjp.Options, func()) {
		return func() (vjp.Problem, string, vjp.Options, func()) {
			a, q := linops.NewDense(dev, gaussian(d, p)), r()
			pr := vjp.Problem{A: newFragileOperator(a, f), R: fragileProx{q, f}, Device: dev}
			if l != nil {
				pr.Loss = fragileLoss{l, f}
			}
			return pr, solver, o, func() {
				a.Release()
				prox.Release(q)
			}
		}
	}
	groups := func(p int) [][]int {
		var all [][]int
		for j := 0; j+4 <= p; j += 4 {
			all = append(all, []int{j, j + 1, j + 2, j + 3})
		}
		return all
	}
	weights := slices.Repeat([]float64{0.5, 1, 2}, 4)
	weighted, err := loss.WeightedSquared(dev, weights)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(weighted.Release)
	l1 := func() prox.Prox { return prox.NewL1(0.5) }
	group := func(p int) func() prox.Prox {
		return func() prox.Prox { return must(prox.NewGroupL2(dev, p, 0.4, groups(p), nil)) }
	}
	few := vjp.Options{Tol: 1e-4, MaxIter: 60}
	completion := func(shape array.Shape, solver string, o vjp.Options) func() (vjp.Problem, string, vjp.Options,
		func()) {
		return func() (vjp.Problem, string, vjp.Options, func()) {
			var places []int
			for j := range shape.Len() {
				if j*7%10 < 6 {
					places = append(places, j)
				}
			}
			slices.Reverse(places)
			a, err := linops.NewSelection(dev, shape.Len(), places)
			if err != nil {
				t.Fatal(err)
			}
			return vjp.Problem{A: newFragileOperator(a, f), R: fragileProx{lowrank.NewNuclear(shape, 1.5), f},
				Device: dev}, solver, o, a.Release
		}
	}
	unrolled := vjp.Options{Tol: 1e-2, MaxIter: 6, Derivative: vjp.Unrolled}
	return map[string]func() (vjp.Problem, string, vjp.Options, func()){
		"lasso":                  dense(12, 15, l1, "fista", nil, few),
		"lasso by ADMM":          dense(12, 15, l1, "admm", nil, few),
		"lasso with weights":     dense(12, 15, l1, "fista", weighted, few),
		"lasso unrolled":         dense(12, 80, l1, "fista", nil, unrolled),
		"lasso with working set": dense(12, 300, l1, "fista", nil, few),
		"group":                  dense(12, 16, group(16), "fista", nil, few),
		"group with working set": dense(12, 300, group(300), "fista", nil, few),
		"ridge": dense(12, 15, func() prox.Prox { return prox.NewSquaredL2(0.3) }, "direct", nil,
			few),
		"completion":              completion(array.Shape{Rows: 6, Cols: 5}, "fista", few),
		"completion by ADMM":      completion(array.Shape{Rows: 6, Cols: 5}, "admm", few),
		"completion unrolled":     completion(array.Shape{Rows: 6, Cols: 5}, "fista", unrolled),
		"completion, low rank":    completion(array.Shape{Rows: 60, Cols: 50}, "fista", few),
		"lasso in a composition":  composed(dev, f, gaussian, false),
		"lasso beside each other": composed(dev, f, gaussian, true),
	}
}

// composed are two users' operators, one after the other or side by side.
func composed(dev array.Device, f *fuse, gaussian func(d, p int) *mat.Dense, beside bool) func() (vjp.Problem, string,
	vjp.Options, func()) {
	return func() (vjp.Problem, string, vjp.Options, func()) {
		a, b := linops.NewDense(dev, gaussian(12, 12)), linops.NewDense(dev, gaussian(12, 15))
		left, right := newFragileOperator(a, f), newFragileOperator(b, f)
		op := linops.Compose(left, right)
		if beside {
			op = linops.VStack(linops.HStack(left, right), linops.HStack(linops.Scale(2, left), right))
		}
		return vjp.Problem{A: op, R: prox.NewL1(0.5), Device: dev}, "fista", vjp.Options{Tol: 1e-3, MaxIter: 30},
			func() {
				a.Release()
				b.Release()
			}
	}
}

// Whichever call of a user's operator, regularizer or loss panics, the estimate ends with that panic
// as its error, and leaves no device memory behind. A verification makes so many calls that a few of
// them stand for all.
func TestAnyCallMayPanic(t *testing.T) {
	dev := array.NewHost()
	f := &fuse{}
	ends, between := int64(60), int64(40)
	if testing.Short() {
		ends, between = 5, 5
	}
	for name, make := range fragile(t, dev, f) {
		t.Run(name, func(t *testing.T) {
			before := dev.Stats().Live
			p, solver, o, release := make()
			f.at.Store(0)
			s, err := vjp.NewSolver(context.Background(), solver, p, o)
			if err != nil {
				t.Fatal(err)
			}
			f.everyCall(t, s, pipeline.Options{Sigma2: 1, Queries: 3}, ends, between)
			if name == "lasso" || name == "ridge" || name == "completion" {
				f.everyCall(t, s, pipeline.Options{Sigma2: 1, Queries: 3, Verify: &verify.Options{}}, ends/5, between/3)
			}
			s.Release()
			release()
			if live := dev.Stats().Live; live != before {
				t.Errorf("%d batches live in the end", live-before)
			}
		})
	}
}

// everyCall runs an estimate again and again, each time with a panic at another call: at the first
// and the last calls one by one, and at some of those between.
func (f *fuse) everyCall(t *testing.T, s vjp.Solver, o pipeline.Options, ends, between int64) {
	ctx, p := context.Background(), s.Problem()
	d, _ := p.A.Dims()
	rng := rand.New(rand.NewPCG(3, 4))
	y := make([]float64, d)
	for i := range y {
		y[i] = 3 * rng.NormFloat64()
	}
	pipe, err := pipeline.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	run := func(at int64) (left int, err error) {
		live := p.Device.Stats().Live
		f.calls.Store(0)
		f.at.Store(at)
		_, err = pipe.Estimate(ctx, y)
		f.at.Store(0)
		return p.Device.Stats().Live - live, err
	}
	for range 2 { // what a solver builds the first time stays
		if _, err := run(0); err != nil {
			t.Fatal(err)
		}
	}
	calls := f.calls.Load()
	for n := int64(1); n <= calls; n++ {
		if n > ends && n < calls-ends {
			n = min(n+calls/between, calls-ends)
		}
		left, err := run(n)
		if p := new(stages.PanicError); !errors.As(err, &p) {
			t.Fatalf("call %d of %d panics, and the estimate ends with %v", n, calls, err)
		} else if left != 0 {
			t.Fatalf("call %d of %d panics: %d batches are left\n%s", n, calls, left, p.Stack)
		}
	}
	t.Logf("%d calls", calls)
}

//go:build cuda

package cuda_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/cuda"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/prox/lowrank"
	"surepipe/solve/solvetest"
	"surepipe/vjp"
)

// products is an operator known by its products alone.
type products struct{ linops.Operator }

// shared is a problem that many requests solve.
type shared struct {
	name, solver string
	options      vjp.Options
	make         func(t *testing.T, dev array.Device) (p vjp.Problem, release func())
	d            int
}

// sharedProblems are solved by the methods that build something on the way: a working set's columns
// and regularizer, conjugate gradients with a preconditioner, the factors of a closed form, and the
// pattern of a completion's entries.
func sharedProblems() []shared {
	gaussian := func(d, p int) *mat.Dense {
		rng := rand.New(rand.NewPCG(21, uint64(d*p)))
		x := mat.NewDense(d, p, nil)
		for i := range d {
			for j := range p {
				x.Set(i, j, rng.NormFloat64()/math.Sqrt(float64(d)))
			}
		}
		return x
	}
	dense := func(d, p int, wrap func(a *linops.Dense) linops.Operator,
		r func(dev array.Device) (prox.Prox, error)) func(t *testing.T, dev array.Device) (vjp.Problem, func()) {
		return func(t *testing.T, dev array.Device) (vjp.Problem, func()) {
			a := linops.NewDense(dev, gaussian(d, p))
			q, err := r(dev)
			if err != nil {
				t.Fatal(err)
			}
			return vjp.Problem{A: wrap(a), R: q, Device: dev}, func() {
				a.Release()
				prox.Release(q)
			}
		}
	}
	whole := func(a *linops.Dense) linops.Operator { return a }
	l1 := func(array.Device) (prox.Prox, error) { return prox.NewL1(0.8), nil }
	group := func(dev array.Device) (prox.Prox, error) {
		var groups [][]int
		for j := 0; j < 300; j += 3 {
			groups = append(groups, []int{j, j + 1, j + 2})
		}
		return prox.NewGroupL2(dev, 300, 1, groups, nil)
	}
	// A has no closed form, too many columns for an inverse, and their lengths are known: conjugate gradients take a
	// preconditioner that all requests share.
	stacked := func(a *linops.Dense) linops.Operator {
		_, p := a.Dims()
		return columns{linops.Compose(products{a}, linops.Identity(p)), linops.StructureOf(a).ColumnNorms2}
	}
	incomplete := func(t *testing.T, dev array.Device) (vjp.Problem, func()) {
		data := completion(16, 12)
		a, err := linops.NewSelection(dev, 16*12, data.Indices)
		if err != nil {
			t.Fatal(err)
		}
		return vjp.Problem{A: a, R: lowrank.NewNuclear(array.Shape{Rows: 16, Cols: 12}, 8), Device: dev}, a.Release
	}
	few := vjp.Options{Tol: 1e-3, MaxIter: 40}
	return []shared{
		{"working set", "fista", few, dense(30, 300, whole, l1), 30},
		{"group l2", "fista", few, dense(30, 300, whole, group), 30},
		{"closed form of the z-step", "admm", few, dense(30, 300, whole, l1), 30},
		{"conjugate gradients in the z-step", "admm", vjp.Options{Tol: 1e-2, MaxIter: 6}, dense(12, 1100, stacked, l1),
			12},
		{"inverse of the z-step", "admm", vjp.Options{Tol: 1e-2, MaxIter: 6}, dense(12, 40, stacked, l1), 12},
		{"completion", "fista", few, incomplete, 6 * 16 * 12 / 10},
		{"completion in factored form", "fista", few, func(t *testing.T, dev array.Device) (vjp.Problem, func()) {
			solvetest.FactorAll(t)
			return incomplete(t, dev)
		}, 6 * 16 * 12 / 10},
	}
}

// columns is an operator known by its products and the lengths of its columns.
type columns struct {
	linops.Operator
	norms2 func() []float64
}

func (c columns) Structure() linops.Structure { return linops.Structure{ColumnNorms2: c.norms2} }

// leave allocates on a view until no more than room bytes are available.
func leave(view array.Device, room int64) (hoard []array.Batch) {
	for size := 1 << 22; size >= 1<<7; size /= 2 {
		for {
			if free, _ := view.Available(); free-room < 8*int64(size) {
				break
			}
			hoard = append(hoard, view.Alloc(1, size))
		}
	}
	return hoard
}

// multiply computes products with an operator in both directions, of one vector and of many.
func multiply(view array.Device, a linops.Operator) {
	d, p := a.Dims()
	for _, k := range []int{1, 70} {
		b, z := view.Alloc(k, p), view.Alloc(k, d)
		view.Fill(b, 1)
		a.Forward(z, b)
		a.Adjoint(b, z)
		b.Free()
		z.Free()
	}
}

// With ever less memory a solve of a request ends with its numbers or a lack of memory, which is the
// request's own: the card and what all requests share are as before, and the next request, which has
// the memory, has the bits that it has alone.
func TestRequestsShareWhatMemoryRunsShortOf(t *testing.T) {
	emulated(t)
	ctx := context.Background()
	const memory = 64 << 20
	for _, c := range sharedProblems() {
		t.Run(c.name, func(t *testing.T) {
			y := make([]float64, c.d)
			rng := rand.New(rand.NewPCG(22, 0))
			for i := range y {
				y[i] = 3 * rng.NormFloat64()
			}
			// open is a card with the solver; solve solves a request on it, with a derivative.
			open := func() (*cuda.Device, vjp.Solver, func()) {
				dev := openCard(t, memory)
				p, release := c.make(t, dev)
				s, err := vjp.NewSolver(ctx, c.solver, p, c.options)
				if err != nil {
					t.Fatal(err)
				}
				return dev, s, func() {
					s.Release()
					release()
					if live := dev.Stats().Live; live != 0 {
						t.Errorf("%d batches live in the end", live)
					}
					if err := dev.Close(); err != nil {
						t.Error(err)
					}
					nothingHeld(t)
				}
			}
			solve := func(view array.Device, s vjp.Solver) ([]float64, error) {
				at := view.Alloc(1, len(y))
				defer at.Free()
				view.Upload(at, y)
				sol, err := s.Solve(ctx, at)
				if err != nil {
					return nil, err
				}
				defer sol.Release()
				image := view.Alloc(1, len(y))
				defer image.Free()
				if err := sol.Linearization.VJP(ctx, image, at); err != nil {
					return nil, err
				}
				return append(sol.B.ToHost(), image.ToHost()...), view.Err()
			}
			dev, s, end := open()
			want, err := solve(dev.Request(), s)
			if err != nil {
				t.Fatal(err)
			}
			peak := dev.Stats().PeakBytes
			end()
			// Products first start cuBLAS, whose memory exceeds that of these problems: at every fourth
			// request it is the solve that starts it. What was freed waits in the pool for a batch of
			// its size, so that a solve needs more than it has at once.
			const steps = 8
			short, enough := 0, 0
			for i := range steps {
				dev, s, end := open()
				poor, hoarder := dev.Request(), dev.Request()
				room := peak * int64(i) / steps
				if i%4 == 0 {
					room = (3*peak + 4<<20) * int64(i) / steps
				} else {
					multiply(dev.Request(), s.Problem().A)
				}
				hoard := leave(hoarder, room)
				_, err := solve(poor, s)
				for _, b := range hoard {
					b.Free()
				}
				var lack *array.OutOfMemory
				switch {
				case err == nil:
					enough++
				case errors.As(err, &lack):
					short++
				default:
					t.Errorf("with %d bytes the solve ends with %v, expected a lack of memory", room, err)
				}
				if err := errors.Join(dev.Err(), hoarder.Err()); err != nil {
					t.Fatalf("with %d bytes the card fails: %v", room, err)
				}
				if got, err := solve(dev.Request(), s); err != nil || !slices.Equal(got, want) {
					t.Errorf("after a request with %d bytes: error %v, the bits of a request alone: %t", room, err,
						slices.Equal(got, want))
				}
				end()
			}
			t.Logf("of %d requests %d ran out of memory, %d did not", steps, short, enough)
			if short == 0 || enough == 0 {
				t.Errorf("of %d requests %d ran out of memory, expected some but not all", steps, short)
			}
		})
	}
}

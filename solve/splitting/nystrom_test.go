package splitting_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/prox"
	"surepipe/solve"
)

// fused is a fused LASSO with a matrix of the given kind.
func fused(dev array.Device, kind string, d, p int) (solve.Problem, array.Batch, func()) {
	rng := rand.New(rand.NewPCG(61, 62))
	x := mat.NewDense(d, p, nil)
	for i := range d {
		for j := range p {
			u, v := float64(i)/float64(d), float64(j)/float64(p)
			switch kind {
			case "sums":
				x.Set(i, j, 0.1*rng.NormFloat64())
				if v <= u {
					x.Set(i, j, x.At(i, j)+1)
				}
			case "factors":
				x.Set(i, j, rng.NormFloat64()+3*math.Sin(float64(3*i))*math.Sin(float64(7*j))+3*math.Sin(float64(5*i))*math.Cos(float64(2*j)))
			case "kernel":
				x.Set(i, j, 2*math.Exp(-(u-v)*(u-v)/(2*0.02*0.02)))
			default:
				x.Set(i, j, rng.NormFloat64())
			}
		}
	}
	b := make([]float64, p)
	for j := p / 4; j < p/3; j++ {
		b[j] = 1
	}
	y := mat.NewVecDense(d, nil)
	y.MulVec(x, mat.NewVecDense(p, b))
	sigma := 0.1 * mat.Norm(y, 2) / math.Sqrt(float64(d))
	for i := range d {
		y.SetVec(i, y.AtVec(i)+sigma*rng.NormFloat64())
	}
	weight := sigma * math.Sqrt(mat.Norm(x, 2))
	a := linops.NewDense(dev, x)
	k, r := solve.Terms(solve.Term{K: linops.Identity(p), R: prox.NewL1(weight / 5)},
		solve.Term{K: imaging.NewDifference1D(p), R: prox.NewL1(weight)})
	data := dev.Alloc(1, d)
	dev.Upload(data, y.RawVector().Data)
	return solve.Problem{A: a, K: k, R: r, Device: dev}, data, func() {
		a.Release()
		data.Free()
	}
}

// A matrix whose singular values fall fast is sketched, and another is not. The solution is that within the
// duality gap, at a second weight and in a second run too, bit for bit.
func TestNystromInAlternatingDirections(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		most := 1000
		if arraytest.Emulated(t, dev) {
			most = 2
		}
		for kind, want := range map[string]string{"factors": "a Nystrom approximation", "normal": "K's closed form"} {
			p, y, free := fused(dev, kind, 300, 1100)
			s, err := solve.New(context.Background(), "admm", p, solve.Options{Tol: 0.05, MaxIter: most})
			if err != nil {
				t.Fatal(err)
			}
			other, err := s.Reweight(context.Background(), p.R)
			if err != nil {
				t.Fatal(err)
			}
			var b [2][]float64
			for i, s := range []solve.Solver{s, other} {
				sol, err := s.Solve(context.Background(), y, solve.From{})
				if err != nil {
					t.Fatal(err)
				}
				if got := fmt.Sprint(sol.Choices); !sol.Converged && most > 2 || !strings.Contains(got, want) {
					t.Errorf("%s: converged %t, choices %s, expected %s", kind, sol.Converged, got, want)
				}
				b[i] = sol.B.ToHost()
				sol.Release()
			}
			if !slices.Equal(b[0], b[1]) {
				t.Errorf("%s: two runs differ", kind)
			}
			other.Release()
			s.Release()
			free()
		}
	})
}

// BenchmarkIllConditionedADMM is 300 iterations for a fused LASSO whose matrix has singular values that fall
// fast, slowly, and not at all.
func BenchmarkIllConditionedADMM(b *testing.B) {
	dev := array.NewHost()
	defer dev.Close()
	for _, kind := range []string{"kernel", "sums", "normal"} {
		p, y, free := fused(dev, kind, 1200, 2000)
		b.Run(kind, func(b *testing.B) {
			for b.Loop() {
				s, err := solve.New(context.Background(), "admm", p, solve.Options{MaxIter: 300, Tol: 1e-12})
				if err != nil {
					b.Fatal(err)
				}
				sol, err := s.Solve(context.Background(), y, solve.From{})
				if err != nil {
					b.Fatal(err)
				}
				sol.Release()
				s.Release()
			}
		})
		free()
	}
}

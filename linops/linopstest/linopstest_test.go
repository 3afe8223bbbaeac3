package linopstest_test

import (
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/linopstest"
)

// honest is a correct 3 x 5 operator for the broken ones below to embed.
func honest(dev array.Device) linops.Operator {
	return linops.NewDense(dev, mat.NewDense(3, 5, []float64{
		2, -1, 0, 3, 1,
		0, 4, 1, -2, 5,
		1, 1, 7, 0, -3,
	}))
}

// broken is an operator with one or two methods replaced.
type broken struct {
	linops.Operator
	forward, adjoint func(dst, src array.Batch)
}

func (b broken) Forward(dst, src array.Batch) {
	if b.forward == nil {
		b.Operator.Forward(dst, src)
		return
	}
	b.forward(dst, src)
}

func (b broken) Adjoint(dst, src array.Batch) {
	if b.adjoint == nil {
		b.Operator.Adjoint(dst, src)
		return
	}
	b.adjoint(dst, src)
}

type liar struct {
	linops.Operator
	rowGram, norm2 float64
	matrix         *mat.Dense
	columns        []float64
}

func (l liar) RowGram() (float64, bool) { return l.rowGram, l.rowGram != 0 }
func (l liar) Norm2() (float64, bool)   { return l.norm2, l.norm2 != 0 }
func (l liar) Dense() *mat.Dense        { return l.matrix }
func (l liar) ColumnNorms2() []float64  { return l.columns }

type solver struct {
	linops.Operator
	solve func(dst, rhs array.Batch, eta float64) bool
}

func (s solver) SolveNormal(dst, rhs array.Batch, eta float64) bool { return s.solve(dst, rhs, eta) }

func TestCheckPassesAnHonestOperator(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, a := range []linops.Operator{honest(dev), broken{Operator: honest(dev)}, liar{Operator: honest(dev)}} {
			if err := linopstest.Check(dev, a); err != nil {
				t.Errorf("%T: %v", a, err)
			}
		}
	})
}

func TestCheckFindsEveryKindOfFault(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		a := honest(dev)
		var calls atomic.Int64
		for _, c := range []struct {
			name string
			a    linops.Operator
			want string // part of the finding
		}{
			{"adjoint off by a factor", broken{a, nil, func(dst, z array.Batch) {
				a.Adjoint(dst, z)
				dev.Lin(dst, 1+1e-9, dst, 0, array.Batch{})
			}}, "not the adjoint"},
			{"affine", broken{a, func(dst, b array.Batch) {
				a.Forward(dst, b)
				one := dev.Alloc(dst.K(), dst.N())
				defer one.Free()
				dev.Fill(one, 1e-6)
				dev.Lin(dst, 1, dst, 1, one)
			}, nil}, "Forward is not linear"},
			{"soft threshold", broken{a, func(dst, b array.Batch) {
				a.Forward(dst, b)
				dev.Soft(dst, dst, array.Batch{}, 0.1)
			}, nil}, "Forward is not linear"},
			{"NaN", broken{a, func(dst, b array.Batch) { dev.Fill(dst, math.NaN()) }, nil}, "is NaN"},
			{"vectors see each other", broken{a, func(dst, b array.Batch) {
				a.Forward(dst, b)
				if dst.K() > 2 {
					dev.Lin(dst, 1+0x1p-50, dst, 0, array.Batch{})
				}
			}, nil}, "in a batch of"},
			{"adds to dst", broken{a, func(dst, b array.Batch) {
				t := dev.Alloc(dst.K(), dst.N())
				defer t.Free()
				a.Forward(t, b)
				dev.Lin(dst, 1, dst, 1, t)
			}, nil}, "is NaN"},
			{"modifies its source", broken{a, func(dst, b array.Batch) {
				a.Forward(dst, b)
				dev.Lin(b, -1, b, 0, array.Batch{})
			}, nil}, "modifies its source"},
			{"no views", broken{a, func(dst, b array.Batch) {
				if !dst.Contiguous() {
					panic("gaps")
				}
				a.Forward(dst, b)
			}, nil}, "Forward: panic: gaps"},
			{"any shape", broken{a, func(dst, b array.Batch) {
				if dst.K() == b.K() && dst.N() == 3 && b.N() == 5 {
					a.Forward(dst, b)
				}
			}, nil}, "does not panic"},
			{"leak", broken{a, func(dst, b array.Batch) {
				a.Forward(dst, b)
				if calls.Add(1); dst.K() == 2 {
					dev.Alloc(1, 1)
				}
			}, nil}, "not given back"},
			{"RowGram", liar{Operator: a, rowGram: 1}, "RowGram is 1"},
			{"negative RowGram", liar{Operator: a, rowGram: -1}, "RowGram is -1"},
			{"Norm2 too small", liar{Operator: a, norm2: 20}, "Norm2 is 20"},
			{"Norm2 too large", liar{Operator: a, norm2: 200}, "Norm2 is 200"},
			{"Dense of another size", liar{Operator: a, matrix: mat.NewDense(5, 3, nil)}, "Dense is 5 x 3"},
			{"another Dense", liar{Operator: a, matrix: mat.NewDense(3, 5, nil)}, "Dense: its column 0"},
			{"columns", liar{Operator: a, columns: make([]float64, 5)}, "ColumnNorms2 of column 0"},
			{"solution", solver{a, func(dst, rhs array.Batch, eta float64) bool {
				dev.Lin(dst, 1/(1+eta), rhs, 0, array.Batch{})
				return true
			}}, "SolveNormal at eta"},
			{"false after writing", solver{a, func(dst, rhs array.Batch, eta float64) bool {
				dev.Copy(dst, rhs)
				return false
			}}, "has written to its destination"},
		} {
			err := linopstest.Check(dev, c.a)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: Check says %v, want %q", c.name, err, c.want)
			}
		}
	})
}

func ExampleCheck() {
	dev := array.NewHost()
	// Cumulative sums; the adjoint sums from the other end. This one forgot to.
	n := 4
	cumsum := func(dst, src []float64) {
		s := 0.0
		for i, v := range src {
			s += v
			dst[i] = s
		}
	}
	err := linopstest.Check(dev, linops.NewFunc(n, n, cumsum, cumsum))
	finding, _, _ := strings.Cut(err.Error(), ":")
	fmt.Println(finding)
	// Output: Adjoint is not the adjoint of Forward
}

package together_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/additive"
	"surepipe/linops/together"
	"surepipe/space"
)

const d, p = 23, 9

// matrix is random, with a column that is 0 but for its first rows. With centered the means of its columns are 0.
func matrix(centered bool) *mat.Dense {
	rng := rand.New(rand.NewPCG(8, 1))
	x := mat.NewDense(d, p, nil)
	for i := range d {
		for j := range p {
			x.Set(i, j, rng.NormFloat64())
		}
		if i > 3 {
			x.Set(i, 2, 0)
		}
	}
	if centered {
		x, _, _ = additive.CenterColumns(x)
	}
	return x
}

// rowsOf leaves out one row in three, from k on, and the first four where k is 0.
func rowsOf(k int) (rows []int) {
	for i := range d {
		if i%3 != k && (k > 0 || i > 3) {
			rows = append(rows, i)
		}
	}
	return rows
}

// kept are the rows as a matrix of their own.
func kept(x *mat.Dense, rows []int, centered bool) *mat.Dense {
	own := mat.NewDense(len(rows), p, nil)
	for k, i := range rows {
		own.SetRow(k, x.RawRowView(i))
	}
	if centered {
		own, _, _ = additive.CenterColumns(own)
	}
	return own
}

// near fails unless values agree to rounding.
func near(got, want []float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d values, want %d", len(got), len(want))
	}
	if off := floats.Distance(got, want, math.Inf(1)); !(off <= 1e-13*max(1, floats.Norm(want, math.Inf(1)))) {
		return fmt.Errorf("off by %g", off)
	}
	return nil
}

// agree compares all that a part does with a matrix of its own.
func agree(dev array.Device, part linops.Restricted, own linops.Operator, rng *rand.Rand) error {
	n, _ := own.Dims()
	random := func(k, n int) array.Batch {
		x := make([]float64, k*n)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		return dev.Put(x, k, n)
	}
	b, z := random(2, p), random(3, n)
	got, want := dev.Alloc(2, n), dev.Alloc(2, n)
	part.Forward(got, b)
	own.Forward(want, b)
	if err := near(got.ToHost(), want.ToHost()); err != nil {
		return fmt.Errorf("Forward: %w", err)
	}
	got, want = dev.Alloc(3, p), dev.Alloc(3, p)
	part.Adjoint(got, z)
	own.Adjoint(want, z)
	if err := near(got.ToHost(), want.ToHost()); err != nil {
		return fmt.Errorf("Adjoint: %w", err)
	}
	mine, theirs := linops.StructureOf(part), linops.StructureOf(own)
	if err := near(mine.ColumnNorms2(), theirs.ColumnNorms2()); err != nil {
		return fmt.Errorf("ColumnNorms2: %w", err)
	}
	if err := near(mine.Dense().RawMatrix().Data, theirs.Dense().RawMatrix().Data); err != nil {
		return fmt.Errorf("Dense: %w", err)
	}
	left, right := space.Coordinates(dev, p, []int{1, 2, 6}), space.Coordinates(dev, p, []int{0, 2, 5, 7})
	a, _ := linops.On(dev, part, left)
	c, _ := linops.On(dev, part, right)
	ownA, _ := linops.On(dev, own, left)
	ownC, _ := linops.On(dev, own, right)
	for name, pair := range map[string][2]linops.Operator{"On": {a, ownA}, "On the others": {c, ownC}} {
		_, k := pair[0].Dims()
		x := random(1, k)
		got, want := dev.Alloc(1, n), dev.Alloc(1, n)
		pair[0].Forward(got, x)
		pair[1].Forward(want, x)
		if err := near(got.ToHost(), want.ToHost()); err != nil {
			return fmt.Errorf("%s, Forward: %w", name, err)
		}
		got, want = dev.Alloc(3, k), dev.Alloc(3, k)
		pair[0].Adjoint(got, z)
		pair[1].Adjoint(want, z)
		if err := near(got.ToHost(), want.ToHost()); err != nil {
			return fmt.Errorf("%s, Adjoint: %w", name, err)
		}
	}
	products := func(a, c linops.Operator) []float64 {
		into, free := linops.Products(dev, a)
		defer free()
		out := dev.Alloc(3, 4)
		into(out, c)
		return out.ToHost()
	}
	if err := near(products(a, c), products(ownA, ownC)); err != nil {
		return fmt.Errorf("Products: %w", err)
	}
	w := make([]float64, n)
	for i := range w {
		w[i] = rng.Float64()
	}
	linops.StructureOf(a).WeighRows(w)
	linops.StructureOf(ownA).WeighRows(w)
	if err := near(linops.StructureOf(a).Stored.ToHost(), linops.StructureOf(ownA).Stored.ToHost()); err != nil {
		return fmt.Errorf("WeighRows: %w", err)
	}
	return near(products(a, c), products(ownA, ownC))
}

// Parts that ask at the same time, one of which leaves early, are the matrices of their rows, in other units too, and
// where a column is 0 in the rows that are left.
func TestPartsAreTheMatricesOfTheirRows(t *testing.T) {
	for _, centered := range []bool{false, true} {
		dev := array.NewHost()
		x := matrix(centered)
		a := linops.NewDense(dev, x)
		if !together.Serves(a) {
			t.Fatal("a dense matrix is not served")
		}
		m := together.New(a)
		var parts []*together.Part
		for k := range 3 {
			parts = append(parts, m.Keep(rowsOf(k), centered))
		}
		scale := make([]float64, p)
		for j := range scale {
			scale[j] = float64(int(1) << j)
		}
		var wait sync.WaitGroup
		for k, part := range parts {
			wait.Go(func() {
				defer part.Release()
				own := linops.NewDense(dev, kept(x, rowsOf(k), centered))
				rng := rand.New(rand.NewPCG(uint64(k), 2))
				if err := agree(dev, part, own, rng); err != nil {
					t.Errorf("centered %v, part %d: %v", centered, k, err)
				}
				if k == 0 {
					return
				}
				scaled := linops.ScaleColumns(dev, part, scale)
				if err := agree(dev, scaled, linops.ScaleColumns(dev, own, scale), rng); err != nil {
					t.Errorf("centered %v, part %d in other units: %v", centered, k, err)
				}
			})
		}
		wait.Wait()
		m.Release()
	}
}

// A panic of what is computed for all reaches each of them, and nobody waits for ever.
func TestEachPartMeetsTheFault(t *testing.T) {
	dev := array.NewHost()
	m := together.New(linops.NewDense(dev, matrix(false)))
	defer m.Release()
	one, other := m.Keep(rowsOf(0), false), m.Keep(rowsOf(1), false)
	other.Release()
	defer one.Release()
	defer func() {
		if recover() == nil {
			t.Error("vectors of another length are no panic")
		}
	}()
	one.Adjoint(dev.Alloc(1, p), dev.Alloc(1, d+1))
}

// Example multiplies by the first two and the last two of three rows.
func Example() {
	dev := array.NewHost()
	m := together.New(linops.NewDense(dev, mat.NewDense(3, 2, []float64{1, 2, 3, 4, 5, 6})))
	defer m.Release()
	parts := []*together.Part{m.Keep([]int{0, 1}, false), m.Keep([]int{1, 2}, false)}
	results := make([][]float64, 2)
	var wait sync.WaitGroup
	for k, part := range parts {
		wait.Go(func() {
			defer part.Release()
			out := dev.Alloc(1, 2)
			part.Adjoint(out, dev.Put([]float64{1, 1}, 1, 2)) // both in one product
			results[k] = out.ToHost()
		})
	}
	wait.Wait()
	fmt.Println(results)
	// Output: [[4 6] [8 10]]
}

// Members may ask from several goroutines at once, as a sweep with several points in flight does.
func TestMembersAskFromSeveralGoroutines(t *testing.T) {
	dev := array.NewHost()
	x := matrix(false)
	a := linops.NewDense(dev, x)
	defer a.Release()
	j := together.NewJoint(a)
	members := []*together.Member{j.Member(), j.Member(), j.Member()}
	done := make(chan error, 1)
	go func() {
		var g errgroup.Group
		j.Do(2, members, func(k int) {
			var own sync.WaitGroup
			for part := range 4 {
				own.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(k), uint64(part)))
					for range 500 {
						z, dst := dev.Alloc(1, d), dev.Alloc(1, p)
						v := make([]float64, d)
						for i := range v {
							v[i] = rng.NormFloat64()
						}
						dev.Upload(z, v)
						members[k].Adjoint(dst, z)
						var want mat.VecDense
						want.MulVec(x.T(), mat.NewVecDense(d, v))
						if err := near(dst.ToHost(), want.RawVector().Data); err != nil {
							g.Go(func() error { return err })
						}
						array.Free(z, dst)
					}
				})
			}
			own.Wait()
		})
		done <- g.Wait()
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the members wait for each other without an end")
	}
}

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
	"surepipe/linops/together"
)

const d, p = 23, 9

// matrix is random.
func matrix() *mat.Dense {
	rng := rand.New(rand.NewPCG(8, 1))
	x := mat.NewDense(d, p, nil)
	for i := range d {
		for j := range p {
			x.Set(i, j, rng.NormFloat64())
		}
	}
	return x
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

// Members may ask from several goroutines at once, as a sweep with several points in flight does.
func TestMembersAskFromSeveralGoroutines(t *testing.T) {
	dev := array.NewHost()
	x := matrix()
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

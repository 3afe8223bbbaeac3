package doubledouble

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// exact is a number as a number of 200 bits.
func exact(a Number) *big.Float {
	x := new(big.Float).SetPrec(200).SetFloat64(a.Hi)
	return x.Add(x, new(big.Float).SetFloat64(a.Lo))
}

func TestArithmeticHasThirtyDigits(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func() Number {
		a := rng.NormFloat64() * math.Exp2(float64(rng.IntN(40)-20))
		return renormal(a, a*0x1p-54*rng.NormFloat64())
	}
	for range 10000 {
		a, b := draw(), draw()
		x, y := exact(a), exact(b)
		q := func() *big.Float { return new(big.Float).SetPrec(200) }
		for name, pair := range map[string][2]*big.Float{
			"sum":        {exact(a.Add(b)), q().Add(x, y)},
			"difference": {exact(a.Sub(b)), q().Sub(x, y)},
			"product":    {exact(a.Mul(b)), q().Mul(x, y)},
			"quotient":   {exact(a.Div(b)), q().Quo(x, y)},
			"root":       {exact(a.Abs().Sqrt()), q().Sqrt(q().Abs(x))},
		} {
			off, _ := q().Quo(q().Sub(pair[0], pair[1]), pair[1]).Float64()
			if math.Abs(off) > 1e-30 {
				t.Fatalf("%s of %v and %v: relative error %g", name, a, b, off)
			}
		}
	}
}

// 1 + 1e-20 differs from 1.
func Example() {
	a := Of(1).Add(Of(1e-20))
	fmt.Println(a.Sub(Of(1)).Hi)
	// Output: 1e-20
}

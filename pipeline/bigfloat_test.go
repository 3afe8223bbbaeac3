package pipeline_test

import (
	"math/big"

	"gonum.org/v1/gonum/mat"
)

// Small systems in arithmetic of 300 bits, where float64 would not tell right from wrong.

func bigFloat(x float64) *big.Float { return new(big.Float).SetPrec(300).SetFloat64(x) }

// bigGram is X'X.
func bigGram(x *mat.Dense) [][]*big.Float {
	d, p := x.Dims()
	g := make([][]*big.Float, p)
	for a := range g {
		g[a] = make([]*big.Float, p)
		for b := range g[a] {
			g[a][b] = bigFloat(0)
			for i := range d {
				g[a][b].Add(g[a][b], new(big.Float).Mul(bigFloat(x.At(i, a)), bigFloat(x.At(i, b))))
			}
		}
	}
	return g
}

// bigTraceOfSolve is tr K^{-1} G, by Gauss-Jordan elimination with pivots from the diagonal; it
// destroys both.
func bigTraceOfSolve(k, g [][]*big.Float) float64 {
	n := len(k)
	for c := range n {
		inverse := new(big.Float).Quo(bigFloat(1), k[c][c])
		for j := range n {
			k[c][j] = new(big.Float).Mul(k[c][j], inverse)
			g[c][j] = new(big.Float).Mul(g[c][j], inverse)
		}
		for i := range n {
			if i == c {
				continue
			}
			f := new(big.Float).Set(k[i][c])
			for j := range n {
				k[i][j] = new(big.Float).Sub(k[i][j], new(big.Float).Mul(f, k[c][j]))
				g[i][j] = new(big.Float).Sub(g[i][j], new(big.Float).Mul(f, g[c][j]))
			}
		}
	}
	sum := bigFloat(0)
	for i := range n {
		sum.Add(sum, g[i][i])
	}
	v, _ := sum.Float64()
	return v
}

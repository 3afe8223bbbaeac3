package interior

import (
	"context"

	"surepipe/internal/parallel"
)

// scaling is J: diagonal, or for each group of rows
//
//	J_g = d_g (I + u_g u_g* / s_g).
type scaling struct {
	diag   []float64 // of every row
	groups *rowGroups
	u, s   []float64
	// allowed is the norm of what may be left of A*A b - A* y + K* u where its system is solved by iterations, which
	// end with ctx.
	allowed float64
	ctx     context.Context
}

func (j *scaling) add(dst, du []float64) {
	if j.groups == nil {
		parallel.Ranges(len(du), parallel.Share, func(lo, hi int) {
			for i, d := range j.diag[lo:hi] {
				dst[lo+i] += d * du[lo+i]
			}
		})
		return
	}
	j.groups.each(func(g int, rows []int32) {
		along := 0.0
		for _, i := range rows {
			along += j.u[i] * du[i]
		}
		along /= j.s[g]
		for _, i := range rows {
			dst[i] += j.diag[i] * du[i]
			dst[i] += j.diag[i] * along * j.u[i]
		}
	})
}

func (j *scaling) inverse(z []float64) {
	if j.groups == nil {
		for i, d := range j.diag {
			z[i] /= d
		}
		return
	}
	j.groups.each(func(g int, rows []int32) {
		along, square := 0.0, 0.0
		for _, i := range rows {
			z[i] /= j.diag[i]
			along += j.u[i] * z[i]
			square += j.u[i] * j.u[i]
		}
		along /= j.s[g] + square
		for _, i := range rows {
			z[i] -= along * j.u[i]
		}
	})
}

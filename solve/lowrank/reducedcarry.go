package lowrank

import (
	"surepipe/array"
	"surepipe/solve/engine"
)

// Frame is that of the system.
func (r *reduced) Frame() *engine.Frame {
	h := r.h
	return &engine.Frame{K: h.k, Rank: h.rank, L: h.side[rowSide].factor.ToHost(),
		R: h.side[columnSide].factor.ToHost(), Columns: h.rows}
}

// Weight is lambda.
func (r *reduced) Weight() float64 { return r.h.mu }

// Carry sets dst_i to P_i T for coordinates P_i with another frame, T being its [engine.Frame.Turn].
func (r *reduced) Carry(dst, p, turn array.Batch) {
	h := r.h
	k := turn.N() / h.k
	n := h.side[h.in()].n
	h.dev.GemmEach(false, false, 1, p, array.Shape{Rows: n, Cols: k}, turn, array.Shape{Rows: k, Cols: h.k}, 0, dst)
}

package simd

// These are the loops of [BallLine.Extrapolate] and [BallStep.Project] for blocks of four entries.

//go:noescape
func momentum4(x, u, before *float64, blocks int, m float64)

//go:noescape
func primal4(primal, down, up, along, before, b *float64, blocks int, c, below float64)

//go:noescape
func project4(sums *[ballLanes]float64, d0, d1, u0, u1, x0, x1, b, ahead, below *float64, blocks, joint int, step,
	radius float64)

//go:noescape
func ahead4(d0, d1, squares, x0, x1, b, ahead, below *float64, blocks int, step float64)

//go:noescape
func shorten4(sums *[ballLanes]float64, d0, d1, u0, u1, x0, x1, factor *float64, blocks int)

package simd

// advance4 is the loop of [BallStep.Advance], and shorten4 that of its together, for blocks of four entries. joint is
// 0 for entries by themselves, 1 for pairs, and 2 where the arguments and their squares are asked for; summed is 1
// where sums are.
//
//go:noescape
func advance4(sums *[ballLanes]float64, d0, d1, down, along, downBefore, alongBefore, b, x0, x1, primal,
	squares *float64, row, apart, blocks, joint, summed int, m, c, step, radius float64)

//go:noescape
func shorten4(sums *[ballLanes]float64, d0, d1, down, along, downBefore, alongBefore, factor *float64, blocks,
	summed int, m float64)

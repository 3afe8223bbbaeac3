package simd

// extrapolate4 is [BallLine.Extrapolate] of blocks of four entries, all of along counted.
//
//go:noescape
func extrapolate4(primal, down, along, u0, u1, p0, p1, up, b *float64, blocks int, m, c, below float64)

// project4 is [BallStep.Project] of blocks of four entries.
//
//go:noescape
func project4(sums *[ballLanes]float64, d0, d1, u0, u1, x0, x1, b, below *float64, blocks, joint int, step,
	radius float64)

//go:build !amd64

package simd

func extrapolate4(_, _, _, _, _, _, _, _, _ *float64, _ int, _, _, _ float64) {}

func project4(_ *[ballLanes]float64, _, _, _, _, _, _, _, _ *float64, _, _ int, _, _ float64) {}

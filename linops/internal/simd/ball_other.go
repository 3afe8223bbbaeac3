//go:build !amd64

package simd

func momentum4(_, _, _ *float64, _ int, _ float64) {}

func primal4(_, _, _, _, _, _ *float64, _ int, _, _ float64) {}

func project4(_ *[ballLanes]float64, _, _, _, _, _, _, _, _, _ *float64, _, _ int, _, _ float64) {}

func ahead4(_, _, _, _, _, _, _, _ *float64, _ int, _ float64) {}

func shorten4(_ *[ballLanes]float64, _, _, _, _, _, _, _ *float64, _ int) {}

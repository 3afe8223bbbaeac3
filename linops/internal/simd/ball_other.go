//go:build !amd64

package simd

func advance4(_ *[ballLanes]float64, _, _, _, _, _, _, _, _, _, _, _ *float64, _, _, _, _, _ int, _, _, _, _ float64) {
}

func shorten4(_ *[ballLanes]float64, _, _, _, _, _, _, _ *float64, _, _ int, _ float64) {}

package problems

import (
	"fmt"

	"go.yaml.in/yaml/v3"
	"gonum.org/v1/gonum/mat"

	"surepipe/prox"
	"surepipe/prox/denoise"
)

// Patches of a local low rank where a specification does not say which.
const (
	patchSide   = 8
	patchStride = 4
)

var localLowRankRegularizer = regularizerKind{
	name: "local-low-rank",
	forms: []form{{"local-low-rank: {weight: W, patch: 8, stride: 4}",
		"singular value thresholding in all patches of 8 x 8 pixels of a series (f, h, w), matrices of\n" +
			"frames x pixels, averaged over the (patch/stride)^2 tilings by patches; stride: 8 is one\ntiling, W " +
			"sum_k ||B_k||_*. Patches at the borders may be smaller, with a smaller threshold"}},
	parse: func(s *Spec, n *regularizerNode, args *yaml.Node) (regularizerBuild, error) {
		f, w, err := s.weighted(n, args, "weight", "patch", "stride")
		if err != nil {
			return nil, err
		}
		series := prox.Series{Patch: patchSide, Stride: patchStride}
		for _, key := range []struct {
			name string
			to   *int
		}{{"patch", &series.Patch}, {"stride", &series.Stride}} {
			if v := f.nodes[key.name]; v != nil {
				if *key.to, err = s.positive(v, key.name); err != nil {
					return nil, err
				}
			}
		}
		if f.nodes["stride"] == nil && series.Patch%series.Stride != 0 {
			series.Stride = series.Patch
		}
		return func(_ *specBuilder, in part, _ []part) ([]*penalty, error) {
			if len(in.shape) != 3 {
				return nil, fmt.Errorf("local-low-rank of an array of shape %s, expected a series of images, "+
					"(frames, rows, columns)", formatShape(in.shape))
			}
			series := series
			series.Frames, series.Rows, series.Cols = in.shape[0], in.shape[1], in.shape[2]
			if err := series.Check(); err != nil {
				return nil, trim(err)
			}
			return n.single(penalty{
				n: series.Len(), norm: w,
				dual: func(g []float64) (float64, error) { return largestOfPatches(series, g) },
				make: w.at(func(w float64) prox.Prox { return denoise.NewLocalLowRank(series, w) }),
			}), nil
		}, nil
	},
}

// largestOfPatches is the smallest weight at which every patch is thresholded to 0.
func largestOfPatches(series prox.Series, g []float64) (float64, error) {
	top := 0.0
	for _, p := range series.Patches() {
		m := mat.NewDense(series.Frames, p.Pixels(), nil)
		p.Visit(series, func(frame, pixel, at int) { m.Set(frame, pixel, g[at]) })
		var svd mat.SVD
		if !svd.Factorize(m, mat.SVDNone) {
			return 0, fmt.Errorf("the singular values of a patch did not converge")
		}
		top = max(top, svd.Values(nil)[0]/p.Scale)
	}
	return top, nil
}

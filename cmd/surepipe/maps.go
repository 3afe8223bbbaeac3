package main

import (
	"surepipe/internal/dataio"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/prox"
)

// localMaps are the maps of an estimate by patches of a series of images: the degrees of freedom of
// each pixel, which add up to the divergence, and where the patches do not overlap the degrees of
// freedom and SURE of each patch,
//
//	-n sigma2 + ||y - mu_hat||^2 + 2 sigma2 df   over the n values of the patch,
//
// which add up to SURE. sigma2 is nil where it is not known. There are none for other problems.
func localMaps(p *problems.Problem, data problems.Data, risk pipeline.Risk, sigma2 *float64) ([]dataio.Array, error) {
	local := prox.StructureOf(p.Regularizer).Local
	if local == nil || risk.MuHat == nil || p.D != p.P {
		return nil, nil
	}
	maps, err := local(data.Y)
	if err != nil {
		return nil, err
	}
	s := maps.Series
	arrays := []dataio.Array{{Name: "degrees_of_freedom", Shape: []int{s.Rows, s.Cols}, Data: maps.DegreesOfFreedom}}
	if maps.PatchDivergence == nil {
		return arrays, nil
	}
	shape := []int{maps.PatchRows, maps.PatchCols}
	arrays = append(arrays, dataio.Array{Name: "patch_degrees_of_freedom", Shape: shape, Data: maps.PatchDivergence})
	if sigma2 == nil {
		return arrays, nil
	}
	sure := make([]float64, len(maps.PatchDivergence))
	for i, patch := range s.Patches() {
		sure[i] = 2 * *sigma2 * maps.PatchDivergence[i]
		patch.Visit(s, func(_, _, at int) {
			rest := data.Y[at] - risk.MuHat[at]
			sure[i] += rest*rest - *sigma2
		})
	}
	return append(arrays, dataio.Array{Name: "patch_sure", Shape: shape, Data: sure}), nil
}

package load

import (
	"surepipe/internal/dataio"
	"surepipe/internal/digits"
	"surepipe/problems"
	"surepipe/risk/warning"
	"surepipe/study"
)

// NotesOnProblem says what the user should know about a problem, whose y is from a file of this depth.
func NotesOnProblem(p *problems.Problem, depth dataio.Depth) study.Notes {
	var n study.Notes
	if k := len(p.NearlyConstant); k > 0 {
		n.Add(warning.ConstantColumn, "column %d of X, counted from 0, is constant up to rounding errors and counts "+
			"as part of the intercept (%d such columns)", p.NearlyConstant[0], k)
	}
	if depth.Scaled {
		n.Add(warning.IntegersScaled, "y is of type uint%d and is taken for an image: 0 to %d are the numbers 0 to 1",
			depth.Bits, uint64(1)<<depth.Bits-1)
	}
	if depth.Lossy {
		n.Add(warning.LossyImage, "y was compressed as JPEG, which removes a part of the noise and correlates the "+
			"rest: "+
			"sigma2 and SURE take it for white")
	}
	if c := p.Center; c != nil {
		n.Add(warning.CenterFound, "the axis of rotation was found at detector %s, counted from 0, by %s: SURE "+
			"takes it as given", digits.PlusMinus(c.Value, c.StdErr), c.By)
	}
	if p.Thresholds > 0 {
		n.Add(warning.ChosenThresholds, "%d thresholds were chosen by SURE at this y: SURE takes them as given, and "+
			"is too small by nearly 2 sigma2 for each", p.Thresholds)
	}
	if p.Relative {
		n.Add(warning.RelativeWeight, "a weight is a multiple of its maximum at this y, so that it depends on y: "+
			"SURE, where sigma2 is known, is only approximately unbiased, and the other criteria take the weight as "+
			"fixed")
	}
	return n
}

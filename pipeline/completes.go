package pipeline

import (
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/risk"
	"surepipe/vjp"
)

// DefaultCriterion is [risk.DefaultCriterion] for a problem, whose observations are left out in groups or alone.
func DefaultCriterion(p vjp.Problem, sigma2 float64, groups bool) risk.Criterion {
	return risk.DefaultCriterion(sigma2, lossName(p) == "", Completes(p), groups && p.A != nil)
}

// Completes reports whether a problem is a matrix completion: its fit is for the entries that are not observed.
func Completes(p vjp.Problem) bool {
	if p.A == nil || p.R == nil {
		return false // a black box
	}
	picked, r := linops.StructureOf(p.A).Picked, prox.StructureOf(p.R)
	return picked != nil && r.Nuclear.Known && picked(r.Shape) != nil
}

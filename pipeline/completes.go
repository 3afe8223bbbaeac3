package pipeline

import (
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/vjp"
)

// Completes reports whether a problem is a matrix completion: its fit is for the entries that are not observed.
func Completes(p vjp.Problem) bool {
	if p.A == nil || p.R == nil {
		return false // a black box
	}
	picked, r := linops.StructureOf(p.A).Picked, prox.StructureOf(p.R)
	return picked != nil && r.Nuclear.Known && picked(r.Shape) != nil
}

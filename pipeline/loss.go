package pipeline

import (
	"surepipe/loss"
	"surepipe/risk"
	"surepipe/stages"
	"surepipe/vjp"
)

// LossTerms has the numbers of a sample that exist only where the loss is not quadratic.
type LossTerms = stages.LossTerms

func (o Options) checkLoss(p vjp.Problem) error {
	name := lossName(p)
	switch {
	case name == "":
		return nil
	case o.Sigma2 > 0:
		return refuse("Sigma2", o.Sigma2, "sigma2 is %g, but SURE is defined for the squared loss and normal "+
			"noise, and the loss is %s: expected 0, and leave-one-out (ALO) in place of SURE", o.Sigma2, name)
	case o.Verify != nil:
		return refuse("Verify", o.Verify, "results are verified for the squared loss, and the loss is %s", name)
	}
	return nil
}

func lossName(p vjp.Problem) string {
	if loss.Quadratic(p.Loss) {
		return ""
	}
	if name := loss.StructureOf(p.Loss).Name; name != "" {
		return name
	}
	return "not quadratic"
}

func checkCriterion(p vjp.Problem, c risk.Criterion) error {
	name := lossName(p)
	if c.Rule().Serves(name == "", loss.StructureOf(p.Loss).Likelihood) {
		return nil
	}
	return refuse("Criterion", c, "the criterion %s is not defined for the %s loss, expected %s, leave-one-out", c,
		name, risk.DefaultCriterion(0, false, false, false, false))
}

func predicts(p vjp.Problem) bool {
	return loss.StructureOf(p.Loss).Coupled != nil || stages.LossOf(p) != nil
}

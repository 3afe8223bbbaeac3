package pipeline

import (
	"context"
	"errors"
)

// ErrNothingToAudit says that neither leave-one-out nor GCV is known of the observations, or that they are too few to
// leave some out.
var ErrNothingToAudit = errors.New("pipeline: nothing to audit: neither alo nor gcv is defined at the estimate, or " +
	"the observations are too few to leave some out")

// Audit compares what a criterion says of the family's estimate r at the weights with fits without some observations,
// as a [Sweep] does at the point that it chooses. A family with one regularizer alone takes no weights. Fits start at
// the solution where r has it (Options.KeepB).
func (f Family) Audit(ctx context.Context, y, weights []float64, r Risk, o SweepOptions) ([]*Audit, error) {
	grid := [][]float64{{1}} // an axis that the regularizer does not read
	if len(weights) > 0 {
		grid = nil
	}
	for _, w := range weights {
		grid = append(grid, []float64{w})
	}
	o.Audit, o.Known, o.Rule, o.Chain = AlwaysAudit, nil, MinimumRule, 2
	s, err := newSweep(y, f, grid, o, nil)
	if err != nil {
		return nil, err
	}
	release, err := s.openAll(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer release()
	all, err := s.audits(ctx, &SweepPoint{Risk: r, Weights: s.weights(0)})
	if err == nil && len(all) == 0 {
		err = ErrNothingToAudit
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return all, err
}

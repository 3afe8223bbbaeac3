package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"surepipe/internal/lists"
	"surepipe/prox"
	"surepipe/risk"
)

func (f Family) regularizer(grid [][]float64) (_ prox.Prox, err error) {
	defer recovered(&err)
	least := lists.Map(grid, func(axis []float64) float64 { return axis[0] })
	return f.Regularizer(least)
}

// hand yields a point of the grid, or withholds it where none has had a value so far and another criterion may take
// the place of the sweep's.
func (s *sweep) hand(p SweepPoint) bool {
	if s.o.Criterion.Rule().Diagonal && s.why == nil {
		s.why = p.ALOErr
	}
	if s.waits {
		if v, _ := s.o.Criterion.Rule().Value(p.Fitted()); v != v {
			s.withheld = append(s.withheld, p)
			return true
		}
		s.waits = false
	}
	return s.release() && s.yield(p, nil)
}

func (s *sweep) release() bool {
	all := s.withheld
	s.withheld = nil
	for _, p := range all {
		if !s.yield(p, nil) {
			return false
		}
	}
	return true
}

// fallBack goes on by cross-validation where the criterion is not defined at any point of the grid.
func (s *sweep) fallBack(ctx context.Context) error {
	if !s.waits {
		return nil
	}
	undefined := s.undefined()
	s.o.Criterion = risk.CV
	if !predicts(s.f.Problem) || s.o.checkFolds(len(s.y)) != nil {
		return undefined
	}
	for _, on := range s.instances {
		on.compare.Criterion = risk.CV
	}
	if err := s.crossValidate(ctx); err != nil {
		return fmt.Errorf("%w; cross-validation in its place: %w", undefined, err)
	}
	s.best = candidate{index: -1}
	for i := range s.withheld {
		p := &s.withheld[i]
		s.validated.put(s, &p.Risk, p.Index)
		s.offer(p.Index, s.valueOf(p), nil)
	}
	if !s.release() {
		return errStopped
	}
	return nil
}

func (s *sweep) undefined() error {
	why := cmp.Or(s.o.Criterion.Rule().Undefined, "no fit leaves degrees of freedom to the residual")
	if s.why != nil {
		why = "at the first of them " + strings.TrimSuffix(s.why.Error(), "; choose cv")
	}
	return fmt.Errorf("pipeline: the criterion %s is not defined at any point of the grid: %s; choose %s, or larger "+
		"weights", s.o.Criterion, why, risk.CV)
}

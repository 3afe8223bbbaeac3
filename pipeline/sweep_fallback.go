package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
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

// mostWithheld is the number of observations up to which all points of a grid are withheld.
const mostWithheld = 1000

// hand yields a point of the grid, or withholds it where another criterion may take the place of its own: while none
// has had a value, or for a small sweep by leave-one-out of another loss, whose values may end where a plane separates
// the classes, or by leave-group-out, whose end where groups decide their own fit, until all are known.
func (s *sweep) hand(p SweepPoint) bool {
	switch {
	case s.why != nil:
	case p.Implausible:
		s.why = errUnsettled
	case s.o.Criterion.Rule().Diagonal:
		s.why = p.ALOErr
	}
	if s.waits {
		if v := p.Value(s.o.Criterion); v != v || s.o.withholds(s.grid, len(s.y), lossName(s.f.Problem)) {
			s.withheld = append(s.withheld, p)
			return true
		}
		s.waits = false
	}
	return s.release() && s.yield(p, nil)
}

// withholds reports whether all points of a grid are withheld until they are known.
func (o *SweepOptions) withholds(grid [][]float64, d int, loss string) bool {
	rule := o.Criterion.Rule()
	return (rule.Blocks || rule.Diagonal && loss != "") && len(grid) == 1 && d <= mostWithheld
}

// FallsBack reports whether a sweep of d observations with the named loss, "" for the squared one, goes on by
// cross-validation ([SweepOptions.Fallback]) after points of the grid with the values of Known, which are all.
func (o SweepOptions) FallsBack(grid [][]float64, d int, loss string) bool {
	s := &sweep{grid: grid, o: o, total: len(o.Known), best: candidate{index: -1}, values: o.Known}
	for i, v := range o.Known {
		if v.defined() && !o.withholds(grid, d, loss) {
			return false
		}
		s.offer(i, v, nil)
	}
	return o.Fallback && o.Criterion.Rule().Undefined != "" && !s.known()
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

// known reports whether the criterion is defined at the minimizer and next to it.
func (s *sweep) known() bool {
	if !s.best.defined() {
		return false
	}
	for _, i := range []int{s.best.index - 1, s.best.index + 1} {
		if i >= 0 && i < s.total && math.IsNaN(s.values[i].Value) {
			return false
		}
	}
	return true
}

// fallBack goes on by cross-validation where the criterion is not defined at any point of the grid, or next to its
// least.
func (s *sweep) fallBack(ctx context.Context) error {
	if !s.waits {
		return nil
	}
	undefined, can := s.undefined(), predicts(s.f.Problem) && s.o.checkFolds(len(s.y)) == nil
	switch {
	case s.known() || s.best.defined() && !can:
		if s.waits = false; !s.release() {
			return errStopped
		}
		return nil
	case !can:
		return undefined
	}
	s.o.Criterion = risk.CV
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

var errUnsettled = errors.New("the divergence is not known, since the derivative of the iterations has not settled")

func (s *sweep) undefined() error {
	why := cmp.Or(s.o.Criterion.Rule().Undefined, "no fit leaves degrees of freedom to the residual")
	if s.why != nil {
		why = "at the first of them " + strings.TrimSuffix(s.why.Error(), "; choose cv")
	}
	return fmt.Errorf("pipeline: the criterion %s is not defined at any point of the grid: %s; choose %s, or larger "+
		"weights", s.o.Criterion, why, risk.CV)
}

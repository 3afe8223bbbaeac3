package active

import (
	"context"
	"math"

	"surepipe/solve/engine"
)

const (
	// walkFrom is how many times the smallest weights without coordinates must exceed the problem's for a walk, whose
	// weights fall by walkBy from one to the next, each with at most walkRounds rounds to walkTo of the gradient.
	walkFrom   = 25
	walkBy     = 0.8
	walkRounds = 2
	walkTo     = 1e-3
)

// walk minimizes at larger weights first, from the smallest at which b = 0 down to the problem's. Each brings in few
// coordinates, whose signs are nearly right at the next; from b = 0 most of those that violate their conditions do so
// for what others explain, and leave again.
func (n *newton) walk(ctx context.Context) error {
	own, ratio, size := n.s, 0.0, 0.0
	for j, g := range n.hostG {
		pull, w := own.pull(j, g), own.w.At(j)
		if !(w > 0) || math.IsInf(w, 1) || !(pull > ratio*w) {
			continue
		}
		length := max(n.norm, math.SmallestNonzeroFloat64)
		if n.lengths != nil {
			length = n.lengths[j]
		}
		ratio, size = pull/w, pull/length
	}
	if !(ratio >= walkFrom) || math.IsInf(ratio, 1) {
		return nil
	}
	defer func() { n.s = own }()
	steps := 0
	for m := walkBy * ratio; m > 1; m *= walkBy {
		larger := &activeSet{Everywhere: engine.Everywhere{Task: own.Task}, splitting: own.splitting}
		larger.w = own.w.Map(func(w float64) float64 { return w * m })
		n.s, n.at.Floor = larger, walkTo*size*m/ratio
		steps += n.at.Steps
		n.p.Reweight(n.s.of(n.set))
		for range walkRounds {
			if n.measure(); n.violations == 0 {
				break
			}
			if err := n.advance(ctx); err != nil {
				return err
			}
		}
		if steps+n.at.Steps >= own.Task.Options.MaxIter/2 {
			break
		}
	}
	n.settled = 0
	steps += n.at.Steps
	n.p.Reweight(own.of(n.set))
	n.at.Steps = steps
	return n.gradient()
}

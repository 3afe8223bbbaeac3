package vjp

import (
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/space"
	"surepipe/vjp/system"
)

// stage is a part of a sum r(K b) = r_1(K_1 b) + r_2(K_2 b) by which the equations of
//
//	T = {u : K_1 u in T_1, K_2 u in T_2} = {E c : K_2 E c in T_2}
//
// are solved first: a basis E of {u : K_1 u in T_1} is at hand, as where K_1 takes differences of pairs, or is
// orthogonal.
type stage struct {
	first, rest *place
	behind      linops.Operator // K_2
	space       space.Space     // {u : K_1 u in T_1}
	reason      string
}

// part is a term of r(K b), whose rows of K begin at from.
type part struct {
	k        linops.Operator
	r        []prox.Prox
	from, to int
}

// partsOf are those of which K and r are made, nil where these are not made of the same ones.
func partsOf(p Problem) []part {
	ops, blocks := linops.Above(p.K), prox.StructureOf(p.R).Blocks
	parts := make([]part, len(ops))
	row := 0
	for i, k := range ops {
		d, _ := k.Dims()
		parts[i] = part{k: k, from: row, to: row + d}
		for row < parts[i].to && len(blocks) > 0 {
			parts[i].r, row, blocks = append(parts[i].r, blocks[0]), row+blocks[0].Dim(), blocks[1:]
		}
		if row != parts[i].to {
			return nil
		}
	}
	return parts
}

// ahead are the kinds of operators whose parts come first, the best one first: on the clusters of differences the
// curvature has a sparse factor.
var ahead = []func(k linops.Structure) bool{
	func(k linops.Structure) bool { return k.Pairs != nil },
	func(k linops.Structure) bool { return k.Rows == linops.Known(1) && k.Columns == linops.Known(1) },
}

// stage is the first that has a basis; nil where there is none.
func (r *place) stage(p Problem) (*stage, error) {
	parts := partsOf(p)
	for _, comes := range ahead {
		var first, rest []part
		for _, t := range parts {
			if comes(linops.StructureOf(t.k)) {
				first = append(first, t)
			} else {
				rest = append(rest, t)
			}
		}
		if len(first) == 0 || len(rest) == 0 {
			continue
		}
		if s, err := r.divided(p, first, rest); s != nil || err != nil {
			return s, err
		}
	}
	return nil, nil
}

// divided is the stage of some parts; nil where no basis of its space, or no curvature on it, is at hand.
func (r *place) divided(p Problem, first, rest []part) (_ *stage, err error) {
	s := &stage{}
	var undo cleanup
	defer undo.run()
	undo.add(s.Release)
	k, at, err := r.of(first)
	if err != nil {
		return nil, err
	}
	if s.first = at; at.model == nil {
		return nil, nil
	}
	s.space, s.reason = at.withBasis(p.Device, p.A, k)
	if s.space == nil || s.space.Dim() == 0 || at.model.Curvature != nil &&
		(s.space.Form().Kind != space.Cluster || at.model.Squares() == nil) {
		return nil, nil
	}
	if s.behind, s.rest, err = r.of(rest); err != nil {
		return nil, err
	}
	undo = nil
	return s, nil
}

// of is the place of some parts, and their operator.
func (r *place) of(parts []part) (linops.Operator, *place, error) {
	var ops []linops.Operator
	var blocks []prox.Prox
	n := 0
	for _, t := range parts {
		ops, blocks, n = append(ops, t.k), append(blocks, t.r...), n+t.to-t.from
	}
	v := r.v.Device().Alloc(1, n)
	at := 0
	for _, t := range parts {
		r.v.Device().Copy(v.Cols(at, at+t.to-t.from), r.v.Cols(t.from, t.to))
		at += t.to - t.from
	}
	place, err := newPlace(prox.NewSeparable(blocks...), v, r.eta)
	if err != nil {
		return nil, nil, err
	}
	place.small, place.error = r.small, r.error
	return linops.VStack(ops...), place, nil
}

func (s *stage) on(dev array.Device) system.Stage {
	return system.Stage{Space: s.space, Slack: s.slack(dev), Curvature: func(t float64) (system.Curved, error) {
		if s.first.model.Curvature == nil {
			return nil, nil
		}
		squares, ok := s.first.squares(s.space)
		if !ok {
			return nil, errNoCurvature
		}
		c, err := newSparseCurvature(squares, s.space.Dim(), t, s.first.small, true)
		if err != nil {
			return nil, err
		}
		return c, nil
	}}
}

// inBar is the number of errors of an entry of mu_hat within which an equation is in doubt.
const inBar = 2

// slack is that of [system.Stage], for the error of mu_hat along one of as many directions as there are observations.
func (s *stage) slack(dev array.Device) float64 {
	at := s.rest
	u := dev.Alloc(1, at.v.N())
	defer u.Free()
	dev.Lin(u, 1/at.eta, at.v, -1/at.eta, at.z)
	share := inBar * at.error / u.MaxAbs()
	if !(share < math.Inf(1)) {
		return 0 // nothing is known
	}
	return share * share
}

func (s *stage) Bytes() int64 {
	return s.space.Bytes() + s.first.j.Bytes() + s.rest.j.Bytes()
}

func (s *stage) Release() {
	if s.space != nil {
		s.space.Release()
	}
	for _, at := range []*place{s.first, s.rest} {
		if at != nil {
			at.release()
		}
	}
}

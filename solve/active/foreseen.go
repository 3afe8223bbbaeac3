package active

import (
	"context"
	"slices"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve/engine"
)

// foreseen are the coordinates that solutions along a path take.
type foreseen struct {
	keys []uint64 // of the weights
	from []int    // the first weight at which a coordinate is not 0, -1 for none; len(keys) beyond the last
}

// beyondLast is the share of the last weight down to which a search for a minimum may go on.
const beyondLast = 0.5

// foresee finds the coordinates that solutions at the weights here and ahead take, from the Gram matrix of all columns,
// without a pass, until their columns do not fit into memory. It is nil where that matrix is not known, or several
// problems share all columns in memory. Nothing rests on it.
func (s *screened) foresee(ctx context.Context, w *screening, dev array.Device, here separable,
	from engine.From) (*foreseen, error) {
	room, every := s.Task.Options.Columns, &s.shared.every
	_, dim := s.Task.Problem.A.Dims()
	if !gramBeside(s.Task.Problem) ||
		linops.StructureOf(s.Task.Problem.A).Shared != nil && int64(dim)*s.passes.ColumnBytes(0) <= room {
		return nil, nil
	}
	if err := every.unheld(s.Task.Problem); err != nil {
		return nil, err
	}
	all, seen := lists.Upto(dim), &foreseen{from: lists.Make(dim, func(int) int { return -1 })}
	inner := newWorkspace(s.Task.Family, &here.splitting, 0, dim, 1)
	inner.tall = &tall{allColumns: every}
	copy(inner.hostG, w.at0)
	if err := inner.extend(ctx, dev, &activeSet{splitting: here.splitting}, all); err != nil {
		return nil, err
	}
	inner.p.Start(w.b.ToHost())
	next := func(at separable) error {
		inner.p.Reweight(at.of(all))
		_, err := inner.p.Minimize(ctx, func() {}, stepsARound)
		for j, b := range inner.at.B {
			if b != 0 && seen.from[j] < 0 {
				seen.from[j] = len(seen.keys)
				room -= s.passes.ColumnBytes(j)
			}
		}
		return err
	}
	last, err := here, next(here)
	seen.keys = append(seen.keys, here.key)
	for i := 1; err == nil && from.Path != nil && from.Ahead != nil && room > 0; i++ {
		r, fault := from.Ahead(i)
		if r == nil || fault != nil {
			err = fault
			break
		}
		last = separableOf(r, dim)
		prox.Release(r)
		err = next(last)
		seen.keys = append(seen.keys, last.key)
	}
	if err == nil && room > 0 {
		last.w = last.w.Map(func(v float64) float64 { return beyondLast * v })
		err = next(last)
	}
	return seen, err
}

// pull is larger for a coordinate that is taken sooner, +Inf at the first weight, and 0 for one that is not taken.
func (f *foreseen) pull(j int) float64 { return max(1/float64(f.from[j]), 0) }

// onPath are the coordinates of a set but for those that are taken beyond the last weight.
func (f *foreseen) onPath(set []int) []int {
	return slices.DeleteFunc(slices.Clone(set), func(j int) bool { return f.from[j] == len(f.keys) })
}

// within are the weights whose solutions take no coordinate outside of a set: all up to the first that does.
func (f *foreseen) within(set []int) map[uint64]bool {
	first := len(f.keys)
	for j, at := range f.from {
		if at < 0 || at >= first {
			continue
		}
		if _, in := slices.BinarySearch(set, j); !in {
			first = at
		}
	}
	keys := map[uint64]bool{}
	for _, key := range f.keys[:first] {
		keys[key] = true
	}
	return keys
}

package active

import (
	"context"

	"surepipe/array"
	"surepipe/internal/lists"
)

// together are solutions on the columns in memory, and their gradients: exact, or outside of the set bounds.
type together struct {
	d, dim               int
	b                    []array.Batch
	residuals, gradients []float64
	exact                []bool
}

func (t *together) residual(i int) []float64 { return t.residuals[i*t.d : (i+1)*t.d] }
func (t *together) gradient(i int) []float64 { return t.gradients[i*t.dim : (i+1)*t.dim] }

func (t *together) Release() {
	array.Free(t.b...)
}

// findGradients takes a pass for all gradients; or, where A is in memory, products for that of the last solution, of
// the first where w knows none before it, and of others only where the bound between two that are known does not prove
// the conditions outside of the set: see [screened.between].
func (s *screened) findGradients(ctx context.Context, w *screening, t *together, z array.Batch, steps []step) error {
	last := len(steps) - 1
	find := []int{last}
	switch {
	case s.passes.Bytes > 0 || s.Task.Lengths() == nil:
		find = lists.Upto(len(steps))
	case w.z == nil && last > 0:
		find = []int{0, last}
	}
	t.exact = make([]bool, len(steps))
	for len(find) > 0 {
		if err := s.multiply(ctx, t, z, find); err != nil {
			return err
		}
		find = s.unproven(w, t, z, steps)
	}
	return nil
}

// multiply finds the gradients of some solutions.
func (s *screened) multiply(ctx context.Context, t *together, z array.Batch, find []int) error {
	dev := z.Device()
	some, g := dev.Alloc(len(find), t.d), dev.Alloc(len(find), t.dim)
	defer array.Free(some, g)
	for k, i := range find {
		dev.Copy(some.Rows(k, k+1), z.Rows(i, i+1))
	}
	err := s.passes.Adjoint(ctx, g, some)
	for k, i := range find {
		dev.Download(t.gradient(i), g.Rows(k, k+1))
		t.exact[i] = true
	}
	return err
}

// unproven bounds the gradients between those that are known, and returns solutions in the middle of those for which
// that proves nothing.
func (s *screened) unproven(w *screening, t *together, z array.Batch, steps []step) (find []int) {
	near, from := &neighbourhood{screening: w}, 0
	if w.z != nil {
		near.refs, from = append(near.refs, &verified{z: w.z, g: w.g}), -1
	}
	for i, known := range t.exact {
		if known {
			near.refs = append(near.refs, &verified{z: t.residual(i), g: t.gradient(i)})
		}
	}
	for i, known := range t.exact {
		if !known {
			continue
		}
		for j := from + 1; j < i; j++ {
			copy(t.gradient(j), s.between(near, steps[j].separable, z.Rows(j, j+1)))
			if w.violations(steps[j].separable, t.gradient(j)) != nil {
				find = append(find, (from+i)/2)
				break
			}
		}
		if from = i; w.violations(steps[i].separable, t.gradient(i)) != nil {
			break // what follows is not asked for
		}
	}
	return find
}

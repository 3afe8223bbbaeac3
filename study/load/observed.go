package load

import (
	"fmt"
	"math"
	"slices"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/study"
)

// entries are observed entries of an array of a shape, at these places, as the arrays y, indices and shape.
func entries(y []float64, places, shape []int) []dataio.Array {
	return []dataio.Array{{Name: "y", Shape: []int{len(y)}, Data: y}, ndarray.OfIntegers("indices", places),
		ndarray.OfIntegers("shape", shape)}
}

// fromMatrix takes the observed entries from a matrix, or a sequence, in which the missing ones are NaN.
func fromMatrix(a dataio.Array) ([]dataio.Array, error) {
	var places []int
	for c, v := range a.Data {
		if !math.IsNaN(v) {
			places = append(places, c)
		}
	}
	switch len(places) {
	case 0:
		return nil, fmt.Errorf("array %q is NaN everywhere, expected some observed entries", a.Name)
	case len(a.Data):
		return nil, study.Errorf("array %q has shape %s and no NaN, which stands for a missing entry: expected some, "+
			"or y (d) with indices and shape; --problem svt denoises a whole matrix", a.Name,
			ndarray.ShapeString(a.Shape))
	}
	return entries(a.Pick(places).Data, places, a.Shape), nil
}

// observe puts y, indices and shape in the place of a y of so many axes in which NaN stands for a missing entry: a
// matrix, which must have some, or a sequence.
func (a arrays) observe(stacks bool, axes int) error {
	if a.Has("indices") || !a.Has("y") {
		return nil
	}
	y, err := a.open("y", "(d,), or (m, n) with NaN for missing entries")
	if err != nil {
		return err
	}
	defer y.Close()
	switch {
	case len(y.Shape()) == axes:
	case axes == 2 && !a.named:
		return study.Errorf("the file holds a single array of shape %s, expected y, indices and shape, or a matrix "+
			"with NaN or a sparse matrix whose entries are the observations, or a table of entries and --response",
			ndarray.ShapeString(y.Shape()))
	default:
		return nil // indices are missing, or there are several sequences
	}
	v, err := y.Floats()
	if err != nil {
		return err
	}
	if (stacks || axes == 1) && !slices.ContainsFunc(v.Data, math.IsNaN) {
		return nil // samples of observed entries, or a sequence without gaps
	}
	observed, err := fromMatrix(v)
	if err != nil {
		return err
	}
	a.Hold(observed...)
	if !a.Has("mu") {
		return nil
	}
	return a.pickMu()
}

// pickMu reduces a mu that is the whole matrix, or sequence, to the observed entries.
func (a arrays) pickMu() error {
	if !a.Has("mu") || !a.Has("indices") || !a.Has("shape") {
		return nil
	}
	places, err := a.integers("indices", "(d,)")
	if err != nil {
		return nil // reading them says so
	}
	shape, err := a.integers("shape", "(n,)")
	if err != nil {
		return nil
	}
	r, err := a.Open("mu")
	if err != nil {
		return err
	}
	defer r.Close()
	if len(places) == 0 || !slices.Equal(r.Shape(), shape) || slices.Equal(r.Shape(), []int{len(places)}) {
		return nil
	}
	mu, err := r.Floats()
	if err != nil {
		return err
	}
	for _, c := range places {
		if c < 0 || c >= len(mu.Data) {
			return nil // as above
		}
	}
	a.Hold(mu.Pick(places))
	return nil
}

package load

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/study"
)

// observedEntries are the entries of an array that are not NaN, and their places.
func observedEntries(a dataio.Array) (y []float64, places []int64) {
	for c, v := range a.Data {
		if !math.IsNaN(v) {
			y, places = append(y, v), append(places, int64(c))
		}
	}
	return y, places
}

// fromMatrix takes the observed entries from a matrix, or a sequence, in which the missing ones are NaN.
func fromMatrix(a dataio.Array, more map[string]dataio.Array) error {
	y, places := observedEntries(a)
	switch len(y) {
	case 0:
		return fmt.Errorf("array %q is NaN everywhere, expected some observed entries", a.Name)
	case len(a.Data):
		return study.Errorf("array %q has shape %s and no NaN, which stands for a missing entry: expected some, or "+
			"y (d) with indices and shape; --problem svt denoises a whole matrix", a.Name,
			ndarray.ShapeString(a.Shape))
	}
	more["y"] = dataio.Array{Name: "y", Shape: []int{len(y)}, Data: y}
	more["indices"] = dataio.Array{Name: "indices", Shape: []int{len(y)}, Ints: places}
	shape := make([]int64, len(a.Shape))
	for axis, n := range a.Shape {
		shape[axis] = int64(n)
	}
	more["shape"] = dataio.Array{Name: "shape", Shape: []int{len(shape)}, Ints: shape}
	return nil
}

// observed are the arrays with y, indices and shape in the place of a y of so many axes in which NaN stands
// for a missing entry: a matrix, which must have some, or a sequence. A mu like it becomes that of the
// observed entries.
func (a arrays) observed(stacks bool, axes int) (arrays, error) {
	if a.Has("indices") || !a.Has("y") {
		return a, nil
	}
	y, err := a.open("y", "(d,), or (m, n) with NaN for missing entries")
	if err != nil {
		return a, err
	}
	defer y.Close()
	if len(y.Shape()) != axes {
		return a, nil // indices are missing, or there are several sequences
	}
	v, err := y.Floats()
	if err != nil {
		return a, err
	}
	if (stacks || axes == 1) && !slices.ContainsFunc(v.Data, math.IsNaN) {
		return a, nil // samples of observed entries, or a sequence without gaps
	}
	with := a
	with.more = map[string]dataio.Array{}
	maps.Copy(with.more, a.more)
	if err := fromMatrix(v, with.more); err != nil || !a.Has("mu") {
		return with, err
	}
	mu, err := a.open("mu", ndarray.ShapeString(v.Shape))
	if err != nil {
		return a, err
	}
	defer mu.Close()
	m, err := mu.Floats()
	if err != nil {
		return a, err
	}
	if slices.Equal(m.Shape, v.Shape) {
		picked := make([]float64, len(with.more["indices"].Ints))
		for i, c := range with.more["indices"].Ints {
			picked[i] = m.Data[c]
		}
		with.more["mu"] = dataio.Array{Name: "mu", Shape: []int{len(picked)}, Data: picked}
	}
	return with, nil
}

// weights are those of the observed entries, nil where there are none.
func (a arrays) weights() ([]float64, error) {
	if !a.Has("weights") {
		return nil, nil
	}
	return a.vector("weights", "(d,), a positive weight for each value of y")
}

// pickMu reduces a mu that is the whole matrix, or sequence, to the observed entries.
func (in *inputs) pickMu() {
	mu, given := in.more["mu"]
	indices, bad := arrayInMemory{in.more["indices"]}.Ints()
	shape, wrong := arrayInMemory{in.more["shape"]}.Ints()
	some := bad == nil && wrong == nil && len(indices.Ints) > 0
	if !given || !some || len(mu.Data) == len(indices.Ints) || len(mu.Shape) != len(shape.Ints) {
		return
	}
	for axis, n := range shape.Ints {
		if int64(mu.Shape[axis]) != n {
			return
		}
	}
	picked := make([]float64, len(indices.Ints))
	for i, c := range indices.Ints {
		picked[i] = mu.Data[c]
	}
	in.more["mu"] = dataio.Array{Name: "mu", Shape: []int{len(picked)}, Data: picked}
}

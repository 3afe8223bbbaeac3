package load

import (
	"gonum.org/v1/gonum/mat"

	"surepipe/internal/dataio"
	"surepipe/problems"
)

// Contents is the content of data files.
type Contents struct {
	problems.Data
	Variance
	// Together are labels of the observations: those of one label are left out together. Nil where none were asked for.
	Together []int
	// Each is the number of columns of y where it has several for an observation, else 0.
	Each int
	// Response is the name of y where it is one of several responses, else "".
	Response string
}

// LayoutOf is the layout of a named problem; known is false for other names.
func LayoutOf(problem string) (l problems.Layout, known bool) {
	n, known := problems.Lookup(problem)
	return n.Layout, known
}

// MatrixIn reads a 2-d array of a set; expected is its shape, for the error where it has another one.
func MatrixIn(set *dataio.Set, name, expected string) (*mat.Dense, error) {
	r, err := set.Open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if len(r.Shape()) != 2 {
		return nil, r.ShapeError(expected)
	}
	v, err := r.Floats()
	if err != nil {
		return nil, err
	}
	return mat.NewDense(v.Shape[0], v.Shape[1], v.Data), nil
}

package direct

import (
	"context"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/banded"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/progress"
	"surepipe/solve/engine"
	"surepipe/solve/internal/limits"
	"surepipe/space"
)

// quadratic is a problem of which a closed form is looked for: r(K b) = 1/2 sum_i q_i (K b)_i^2.
type quadratic struct {
	p engine.Problem
	q []float64

	asked, sparse bool       // whether the entries were asked for, and are at hand
	a, k          space.Rows // those of A and K
	width         int        // the largest distance of two columns that a row reads
}

// closedRule is a row of the table of closed forms: the first one that applies, and that can be
// computed, is taken.
type closedRule struct {
	choice  engine.Choice
	applies func(s *quadratic) bool
	// build returns nil where it turns out that the form cannot be computed. The choice is the rule's
	// own if it is zero.
	build func(s *quadratic) (closedForm, engine.Choice, error)
}

var closedRules = []closedRule{
	{engine.Choice{Part: "method", Chosen: "a fast transform",
		Reason: "the cosine or Fourier transform diagonalizes A*A and the penalty"},
		(*quadratic).transforms, newTransformed},
	{engine.Choice{Part: "method", Chosen: "a banded triangular factor",
		Reason: "the rows of A and K read neighbours: rotations factorize " +
			"A above K in time and memory that grow like the length"},
		(*quadratic).neighbours, newBandedNormal},
	{engine.Choice{}, func(s *quadratic) bool { return s.ridge() && writable(s.p.A) && !sparser(s.p.A) }, newRidge},
	{engine.Choice{Part: "method", Chosen: "a dense Cholesky factor of A*A",
		Reason: "A is read from a disk and has few columns, whose products are known: it is not put into memory"},
		(*quadratic).known, newGramNormal},
	{engine.Choice{}, (*quadratic).stackable, newStacked},
	{engine.Choice{Part: "method", Chosen: "a sparse Cholesky factor",
		Reason: "A and K are sparse, and so is a factor of A*A and the penalty"},
		(*quadratic).entries, newCholeskyNormal},
	{engine.Choice{}, func(s *quadratic) bool { return s.ridge() && writable(s.p.A) }, newRidge},
}

// Closable reports that one of the rules applies to a problem.
func Closable(p engine.Problem) bool {
	if !loss.Quadratic(p.Loss) {
		return false
	}
	if w := loss.Weighing(p.Loss); w != nil {
		p.A = engine.NewWeightedRows(p.A, array.Batch{}, lists.Map(w, math.Sqrt), nil)
	}
	p.Loss = nil
	s := &quadratic{p: p, q: curvatures(p)}
	return s.q != nil && slices.ContainsFunc(closedRules, func(r closedRule) bool { return r.applies(s) })
}

// errNotClosed is the error of a problem that no factorization serves.
var errNotClosed = errors.New("solve: direct needs an A that can be written down as a matrix, or sparse A and K " +
	"whose factors are not too large, and a regularizer that penalizes what A does not see; use admm or fista")

func closedFormOf(ctx context.Context, p engine.Problem, q []float64) (closedForm, engine.Choice, error) {
	d, dim := p.A.Dims()
	progress.From(ctx)(progress.Report{Stage: progress.Factorization, Steps: min(d, dim)})
	s := &quadratic{p: p, q: q}
	for _, r := range closedRules {
		if err := ctx.Err(); err != nil {
			return nil, engine.Choice{}, err
		}
		if !r.applies(s) {
			continue
		}
		form, choice, err := r.build(s)
		if err != nil {
			return nil, engine.Choice{}, err
		}
		if choice == (engine.Choice{}) {
			choice = r.choice
		}
		if form != nil {
			return form, choice, nil
		}
	}
	return nil, engine.Choice{}, errNotClosed
}

func common(q []float64) (c float64, ok bool) {
	for i, v := range q {
		if i > 0 && v != c {
			return 0, false
		}
		c = v
	}
	return c, true
}

func (s *quadratic) ridge() bool {
	_, even := common(s.q)
	return s.p.K == nil && even
}

func newRidge(s *quadratic) (closedForm, engine.Choice, error) {
	c, _ := common(s.q)
	return newSpectral(s.p, nil, c)
}

const (
	// stackedEntries is the largest number of entries of A above K for a dense factorization; that for a sparse one,
	// and of products of two entries of a row, which A*A and K*K are made of, is [limits.Factorized].
	stackedEntries = 1 << 22
	// manyColumns is the number of columns from which a sparse A is not written down as a dense
	// matrix, if it has less than leastDensity of its entries.
	manyColumns  = 512
	leastDensity = 0.05
)

func sparser(a linops.Operator) bool {
	d, dim := a.Dims()
	known := linops.StructureOf(a)
	return dim > manyColumns && known.SparseRows != nil && known.Entries.Value < leastDensity*float64(d)*float64(dim)
}

func (s *quadratic) stackable() bool {
	d, dim := s.p.A.Dims()
	known := linops.StructureOf(s.p.A)
	return d > 0 && dim > 0 && dim <= limits.Stacked && (d+len(s.q))*dim <= stackedEntries &&
		known.Passes.Bytes == 0 && (dim <= limits.MaxDense || known.Dense != nil)
}

// newStacked writes A and the penalty down.
func newStacked(s *quadratic) (closedForm, engine.Choice, error) {
	w := mat.NewDense(max(len(s.q), 1), len(s.q), nil)
	if s.p.K != nil {
		w = mat.DenseCopyOf(linops.ToDense(s.p.Device, s.p.K))
	}
	for i, v := range lists.Map(s.q, math.Sqrt) {
		row := w.RawRowView(i)
		if s.p.K == nil {
			row[i] = 1
		}
		for j := range row {
			row[j] *= v
		}
	}
	return newSpectral(s.p, w, 0)
}

func (s *quadratic) entries() bool {
	_, dim := s.p.A.Dims()
	if c, even := common(s.q); even && !(c > 0) || math.IsInf(c, 1) || dim == 0 || dim > math.MaxInt32 {
		return false
	}
	if s.asked {
		return s.sparse
	}
	s.asked = true
	k := s.p.K
	if k == nil {
		k = linops.Identity(dim)
	}
	if s.k, s.sparse = linops.Entries(k, int(limits.Factorized)); s.sparse {
		s.a, s.sparse = entriesOf(s.p.A)
	}
	if !s.sparse {
		s.a, s.k = space.Rows{}, space.Rows{}
		return false
	}
	products := 0 // of two entries of a row
	for _, rows := range []space.Rows{s.a, s.k} {
		for i := range len(rows.Indptr) - 1 {
			n := rows.Indptr[i+1] - rows.Indptr[i]
			products += n * n
			low, high := math.MaxInt, 0
			for _, j := range rows.Indices[rows.Indptr[i]:rows.Indptr[i+1]] {
				low, high = min(low, j), max(high, j)
			}
			s.width = max(s.width, high-low)
		}
	}
	if s.sparse = s.width <= banded.MostWidth || products <= int(limits.Factorized); !s.sparse {
		s.a, s.k = space.Rows{}, space.Rows{}
	}
	return s.sparse
}

func entriesOf(a linops.Operator) (space.Rows, bool) {
	a, root := engine.Unweighted(a)
	rows, ok := linops.Entries(a, int(limits.Factorized))
	if ok && root != nil {
		values := make([]float64, len(rows.Values))
		for i, s := range root {
			for u := rows.Indptr[i]; u < rows.Indptr[i+1]; u++ {
				values[u] = s * rows.Values[u]
			}
		}
		rows.Values = values
	}
	return rows, ok
}

// neighbours reports that all rows read neighbours, and the matrix is no smaller one.
func (s *quadratic) neighbours() bool {
	if s.ridge() && !sparser(s.p.A) && !linops.StructureOf(s.p.A).Identity {
		return false
	}
	_, dim := s.p.A.Dims()
	return s.entries() && s.width <= banded.MostWidth && (4*s.width <= dim || !s.stackable())
}

func notServed(p engine.Problem, err error) bool { return errors.Is(err, errNotClosed) && Closable(p) }

package additive

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/numerics"
	"surepipe/internal/parallel"
	"surepipe/internal/sublist"
	"surepipe/linops/internal/sparse"
	"surepipe/space"
)

// Effects is the projection of vectors of d entries of an m x n matrix on the fits of the additive
// model
//
//	y_ij = c + r_i + s_j,
//
// with row effects r, column effects s, one of them, or the constant c alone, by weighted least
// squares. With Z the d x q matrix of the model's zeros and ones and W = diag(w) it is
//
//	Pi = Z (Z* W Z)^+ Z* W,
//
// which is symmetric where all weights are equal. [Effects.Remove] applies I - Pi.
//
// The set with more effects is eliminated. With the indicators F of its groups, those S of the other
// set's, and the sums of weights D = F* W F (diagonal), N = F* W S (sparse) and S* W S (diagonal), the
// normal equations for the effects f and s are
//
//	C s = S* W z - N* D^+ F* W z,   f = D^+ (F* W z - N s),   C = S* W S - N* D^+ N.
//
// C is of the size b of the smaller side; it is formed and factored once, and a product with Pi takes
// O(d + b^2) flops. C is singular: in the graph whose nodes are rows and columns and whose edges are
// the observed entries, the effects are determined in each connected component up to a constant
// (Weeks and Williams, Technometrics 6, 1964). The rank of Pi is the number of nodes with an edge
// minus the number of components. An entry whose edge is in no cycle determines an effect alone: its
// fit is itself, whatever the others are, and Remove leaves exactly 0 ([Effects.Determined]).
//
// An Effects is safe for concurrent use.
type Effects struct {
	dev        array.Device
	shape      array.Shape
	rows, cols bool
	d          int
	// rowsAt and columnsAt are the rows and columns that occur, nil for all; the effects are theirs.
	rowsAt, columnsAt []int
	w                 []float64
	// first is the set that is eliminated, and second the other; it has no groups where there is one
	// set. swapped says that the first are columns.
	first, second grouping
	swapped       bool
	inverse       []float64   // 1/D
	shared        []neighbour // N's rows
	core          []float64   // C^-, b x b
	component     []int       // of every first group, then of every second one
	components    int
	rank          int
	diagonal      []float64
	determined    []bool // nil where no entry is
	on            effectsOn
}

// effectsOn is what the products take on the device.
type effectsOn struct {
	array.Held
	weights       array.Batch // 1 x d, zero for ones
	scale, core   array.Batch // 1/D and C^-
	spread, sum   array.CSR   // Z and Z*, the effects of the first set before those of the second
	cross, crossT array.CSR   // N, N*
	mask          array.Batch // 0 at determined entries and else 1; zero where no entry is
}

// grouping puts every entry into one of n groups.
type grouping struct {
	of []int
	n  int
}

// neighbour lists the second groups that share edges with a first one, and the weights of these.
type neighbour struct {
	of     []int
	weight []float64
}

// MostEffects is the largest smaller side of the rows and columns that occur where both have effects: C then
// takes 2 GiB.
const MostEffects = 1 << 14

// NewEffects makes the projection for the entries at the given places of a row-major matrix of the
// given shape. rows and cols say which effects there are; without both it is the constant alone.
// weights are w > 0, nil for ones; neither slice is kept. Rows and columns without an entry have no effect,
// and cost nothing. It returns an error where places and weights do not fit, or where with both effects more
// than 16384 rows and as many columns occur.
func NewEffects(dev array.Device, shape array.Shape, places []int, rows, cols bool, weights []float64) (*Effects,
	error) {
	e := &Effects{dev: dev, shape: shape, rows: rows, cols: cols, d: len(places), w: slices.Clone(weights)}
	if weights != nil && len(weights) != e.d {
		return nil, fmt.Errorf("linops: %d weights for %d entries", len(weights), e.d)
	}
	if e.w == nil {
		e.w = slices.Repeat([]float64{1}, e.d)
	}
	for i, v := range e.w {
		if !(v > 0) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("linops: weight %d is %g, want a positive number", i, v)
		}
	}
	byRow, byColumn := grouping{of: make([]int, e.d)}, grouping{of: make([]int, e.d)}
	for i, c := range places {
		if c < 0 || c >= shape.Len() {
			return nil, fmt.Errorf("linops: place %d is %d, want 0 to %d", i, c, shape.Len()-1)
		}
		byRow.of[i], byColumn.of[i] = c/shape.Cols, c%shape.Cols
	}
	e.rowsAt, e.columnsAt = sublist.Number(byRow.of, shape.Rows), sublist.Number(byColumn.of, shape.Cols)
	byRow.n, byColumn.n = len(e.rowsAt), len(e.columnsAt)
	e.rowsAt, e.columnsAt = sublist.Of(e.rowsAt, shape.Rows), sublist.Of(e.columnsAt, shape.Cols)
	if least := min(byRow.n, byColumn.n); rows && cols && least > MostEffects {
		return nil, fmt.Errorf("linops: effects of rows and columns, of which %d and %d occur: the fewer of them "+
			"may be at most %d", byRow.n, byColumn.n, MostEffects)
	}
	switch {
	case rows && cols && byColumn.n > byRow.n:
		e.first, e.second, e.swapped = byColumn, byRow, true
	case rows && cols:
		e.first, e.second = byRow, byColumn
	case rows:
		e.first = byRow
	case cols:
		e.first, e.swapped = byColumn, true
	default:
		e.first = grouping{of: make([]int, e.d), n: min(e.d, 1)}
	}
	e.sumUp()
	if e.second.n > 0 {
		if err := e.relate(); err != nil {
			return nil, err
		}
	}
	e.findDiagonal()
	e.put(weights != nil)
	return e, dev.Err()
}

// sumUp sets D^+.
func (e *Effects) sumUp() {
	e.inverse = make([]float64, e.first.n)
	for i, g := range e.first.of {
		e.inverse[g] += e.w[i]
	}
	for g, v := range e.inverse {
		e.inverse[g] = 1 / v
	}
	e.rank = len(e.inverse)
}

// relate sets N and the components, and inverts C on all but one of the second groups of each.
func (e *Effects) relate() error {
	a, b := e.first.n, e.second.n
	rows := make([]map[int]float64, a)
	for i, g := range e.first.of {
		if rows[g] == nil {
			rows[g] = map[int]float64{}
		}
		rows[g][e.second.of[i]] += e.w[i]
	}
	e.shared = make([]neighbour, a)
	c := make([]float64, b*b)
	for g, row := range rows {
		s := &e.shared[g]
		for h := range row {
			s.of = append(s.of, h)
		}
		slices.Sort(s.of)
		s.weight = lists.Map(s.of, func(h int) float64 { return row[h] })
		for x, h := range s.of {
			c[h*b+h] += s.weight[x]
			by := s.weight[x] * e.inverse[g]
			for y := x; y < len(s.of); y++ {
				c[h*b+s.of[y]] -= by * s.weight[y]
			}
		}
	}
	e.component, e.components = sparse.Components(a, b, e.first.of, e.second.of)
	var kept []int // all but the last of each component
	last := make([]int, e.components)
	for h := range b {
		last[e.component[a+h]] = h
	}
	for h := range b {
		if last[e.component[a+h]] != h {
			kept = append(kept, h)
		}
	}
	e.rank += len(kept)
	var err error
	e.core, err = invert(c, b, kept)
	return err
}

// invert is the inverse of the matrix with the upper triangle c on the kept coordinates, and 0 elsewhere.
func invert(c []float64, b int, kept []int) ([]float64, error) {
	out := make([]float64, b*b)
	if len(kept) == 0 {
		return out, nil
	}
	unit := lists.Map(kept, func(h int) float64 { return 1 / math.Sqrt(c[h*b+h]) })
	scaled := mat.NewSymDense(len(kept), nil)
	for x, h := range kept {
		for y := x; y < len(kept); y++ {
			scaled.SetSym(x, y, unit[x]*unit[y]*c[h*b+kept[y]])
		}
	}
	if condition := numerics.Invert(scaled); condition > mat.ConditionTolerance {
		return nil, fmt.Errorf("linops: the effects of rows and columns cannot be told apart but for rounding "+
			"errors: the weights of the entries differ by too much (condition number %.2g)", condition)
	}
	for x, h := range kept {
		for y, k := range kept {
			out[h*b+k] = unit[x] * unit[y] * scaled.At(x, y)
		}
	}
	return out, nil
}

func (e *Effects) put(weighted bool) {
	dev, on := e.dev, &e.on
	one := func(x []float64) array.Batch {
		b := dev.Alloc(1, len(x))
		dev.Upload(b, x)
		on.Hold(b)
		return b
	}
	both := func(m space.Rows, cols int) (rows, columns array.CSR) {
		rows, columns = m.BothWays(dev, cols)
		on.Hold(rows, columns)
		return rows, columns
	}
	if weighted {
		on.weights = one(e.w)
	}
	on.scale = one(e.inverse)
	if e.determined != nil {
		mask := make([]float64, e.d)
		for i, v := range e.determined {
			if !v {
				mask[i] = 1
			}
		}
		on.mask = one(mask)
	}
	z := space.Rows{Indptr: []int{0}}
	for i, g := range e.first.of {
		if z.Indices = append(z.Indices, g); e.second.n > 0 {
			z.Indices = append(z.Indices, e.first.n+e.second.of[i])
		}
		z.Indptr = append(z.Indptr, len(z.Indices))
	}
	z.Values = slices.Repeat([]float64{1}, len(z.Indices))
	on.spread, on.sum = both(z, e.first.n+e.second.n)
	if e.second.n == 0 {
		return
	}
	n, cols := space.Rows{Indptr: []int{0}}, e.second.n
	for _, s := range e.shared {
		n.Indices, n.Values = append(n.Indices, s.of...), append(n.Values, s.weight...)
		n.Indptr = append(n.Indptr, len(n.Indices))
	}
	on.cross, on.crossT = both(n, cols)
	on.core = one(e.core).Reshape(cols, cols)
}

func (e *Effects) Release() { e.on.Release() }

// Rank is the rank of Pi, the degrees of freedom of the effects.
func (e *Effects) Rank() int { return e.rank }

// Weighted reports whether entries have weights of their own.
func (e *Effects) Weighted() bool { return !e.on.weights.IsZero() }

// Remove sets z_i = (I - Pi) z_i for every vector of z, of length d.
func (e *Effects) Remove(z array.Batch) {
	e.without(z, func(dev array.Device) array.Batch {
		if !e.Weighted() {
			return e.fit(z)
		}
		x := dev.Alloc(z.K(), z.N())
		defer x.Free()
		dev.Mul(x, z, e.on.weights)
		return e.fit(x)
	})
}

// RemoveAdjoint sets z_i = (I - Pi)* z_i.
func (e *Effects) RemoveAdjoint(z array.Batch) {
	e.without(z, func(dev array.Device) array.Batch {
		fit := e.fit(z)
		if e.Weighted() {
			dev.Mul(fit, fit, e.on.weights)
		}
		return fit
	})
}

// without subtracts the fit. The rows and columns of I - Pi of determined entries are 0.
func (e *Effects) without(z array.Batch, of func(dev array.Device) array.Batch) {
	dev := z.Device()
	if z.N() != e.d {
		panic(fmt.Sprintf("linops: effects of %d entries in %s", e.d, z))
	}
	if !e.on.mask.IsZero() {
		dev.Mul(z, z, e.on.mask)
	}
	fit := of(dev)
	dev.Lin(z, 1, z, -1, fit)
	fit.Free()
	if !e.on.mask.IsZero() {
		dev.Mul(z, z, e.on.mask)
	}
}

func (e *Effects) fit(x array.Batch) array.Batch {
	effects, out := e.solve(x), x.Device().Alloc(x.K(), e.d)
	x.Device().MulCSR(out, e.on.spread, effects)
	effects.Free()
	return out
}

// solve are the effects f and then s, a solution of Z* W Z (f, s) = Z* x.
func (e *Effects) solve(x array.Batch) array.Batch {
	dev, k, a, b := x.Device(), x.K(), e.first.n, e.second.n
	effects := dev.Alloc(k, a+b)
	dev.MulCSR(effects, e.on.sum, x)
	f := effects.Cols(0, a)
	if b > 0 {
		s, means, rest := effects.Cols(a, a+b), dev.Alloc(k, a), dev.Alloc(k, b)
		dev.Mul(means, f, e.on.scale)
		dev.MulCSR(rest, e.on.crossT, means)
		dev.Lin(rest, -1, rest, 1, s)
		dev.Gemm(false, false, 1, rest, e.on.core, 0, s)
		dev.MulCSR(means, e.on.cross, s)
		dev.Lin(f, 1, f, -1, means)
		array.Free(means, rest)
	}
	dev.Mul(f, f, e.on.scale)
	return effects
}

// Diagonal is that of Pi; it must not be modified.
func (e *Effects) Diagonal() []float64 { return e.diagonal }

// Root is nil: there are images instead.
func (e *Effects) Root() []float64 { return nil }

// Determined marks the entries that determine an effect alone, whose Pi_ii is 1; nil where there are
// none. It must not be modified.
func (e *Effects) Determined() []bool { return e.determined }

// alone is how near to 1 Pi_ii is for an entry that determines an effect alone: in a cycle of l
// entries it is 1 - 1/l.
const alone = 1e-9

// findDiagonal computes Pi_ii = w_i/D_g + w_i v* C^- v, v = e_h - n_g/D_g, for entry i of the groups g
// and h, where n_g is row g of N. C^- is one inverse of many; the form is the same for all of them.
func (e *Effects) findDiagonal() {
	e.diagonal = make([]float64, e.d)
	b := e.second.n
	for i, g := range e.first.of {
		e.diagonal[i] = e.w[i] * e.inverse[g]
	}
	entries := make([][]int, e.first.n)
	for i, g := range e.first.of {
		entries[g] = append(entries[g], i)
	}
	parallel.For(len(e.shared), func(g int) {
		s := e.shared[g]
		at := make([]float64, len(s.of))  // C^- n_g at the groups that g shares entries with
		square, mean := 0.0, e.inverse[g] // n_g* C^- n_g and 1/D_g
		for x, h := range s.of {
			for y, k := range s.of {
				at[x] += e.core[h*b+k] * s.weight[y]
			}
			square += s.weight[x] * at[x]
		}
		for _, i := range entries[g] {
			h := e.second.of[i]
			x, _ := slices.BinarySearch(s.of, h)
			e.diagonal[i] += e.w[i] * (e.core[h*b+h] - 2*mean*at[x] + mean*mean*square)
		}
	})
	for i, v := range e.diagonal {
		if v <= 1-alone {
			continue
		}
		if e.determined == nil {
			e.determined = make([]bool, e.d)
		}
		e.diagonal[i], e.determined[i] = 1, true
	}
}

package additive

import (
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/space"
)

// CenterColumns returns x with the means of its columns subtracted, the means, and the columns
// that are constant up to the last digits of their entries. These columns, and constant ones,
// become 0.
func CenterColumns(x *mat.Dense) (c *mat.Dense, means []float64, constant []int) {
	c = mat.DenseCopyOf(x)
	means, rest := center(c)
	for _, j := range rest {
		if first := x.At(0, j); slices.ContainsFunc(mat.Col(nil, j, x), func(v float64) bool { return v != first }) {
			constant = append(constant, j)
		}
	}
	return c, means, constant
}

// center subtracts the means of the columns of c, and sets those to 0 that are constant up to the last digits.
func center(c *mat.Dense) (means []float64, rest []int) {
	d, n := c.Dims()
	means = make([]float64, n)
	// A second pass subtracts the rounding error of the first mean.
	for range 2 {
		shift := make([]float64, n)
		for i := range d {
			floats.Add(shift, c.RawRowView(i))
		}
		floats.Scale(1/float64(d), shift)
		for i := range d {
			floats.Sub(c.RawRowView(i), shift)
		}
		floats.Add(means, shift)
	}
	for j, mean := range means {
		i, rounding := 0, 4*0x1p-52*math.Abs(mean)
		for i < d && math.Abs(c.At(i, j)) <= rounding {
			i++
		}
		if i < d || d == 0 {
			continue
		}
		rest = append(rest, j)
		for i := range d {
			c.Set(i, j, 0)
		}
	}
	return means, rest
}

// Centered is A - 1 m*, where m are the means of A's columns. It applies A and then the projection
// onto the vectors of mean 0, so that a sparse A stays sparse.
type Centered struct {
	array.Held
	without
	ones  ones
	means array.Batch // 1 x p, m
}

// ones is the projection on the constants by a vector of ones, 1 x d.
type ones struct{ array.Batch }

// Remove subtracts the mean from every vector.
func (o ones) Remove(z array.Batch) {
	dev := z.Device()
	sums := dev.Alloc(z.K(), 1)
	dev.Gemm(false, true, 1, z, o.Batch, 0, sums)
	dev.Gemm(false, false, -1/float64(z.N()), sums, o.Batch, 1, z)
	sums.Free()
}

func (o ones) RemoveAdjoint(z array.Batch) { o.Remove(z) }

// NewCentered returns A - 1 m* on dev, for A on the same device.
func NewCentered(dev array.Device, a linops.Operator) *Centered {
	d, p := a.Dims()
	one := ones{dev.Alloc(1, d)}
	c := &Centered{without: without{Operator: a, pi: one}, ones: one, means: dev.Alloc(1, p)}
	c.Hold(c.ones, c.means)
	dev.Fill(one.Batch, 1)
	a.Adjoint(c.means, one.Batch)
	dev.Lin(c.means, 1/float64(d), c.means, 0, array.Batch{})
	c.know()
	return c
}

// know builds the structure: the part of A's that survives the projection.
func (c *Centered) know() {
	a := linops.StructureOf(c.Operator)
	c.structure = linops.Structure{Entries: a.Entries}
	if a.ColumnNorms2 != nil {
		c.structure.ColumnNorms2 = func() []float64 { return c.columnNorms2(a.ColumnNorms2()) }
	}
	if a.Dense != nil {
		c.structure.Dense = func() *mat.Dense {
			x, _, _ := CenterColumns(a.Dense())
			return x
		}
	}
	if a.SparseRows != nil {
		c.knowSparse(a.SparseRows(), a.ColumnNorms2())
	} else if a.On != nil {
		c.structure.On = c.on
	}
}

// knowSparse adds what is known of S - 1 m*, where A is S with the given entries and squared norms of its columns.
// Means of columns that lose more than half of their squared norms are taken off S: most of their entries are not 0.
func (c *Centered) knowSparse(rows space.Rows, norms []float64) {
	d, p := c.Dims()
	dev := c.ones.Device()
	means := c.Means()
	left, right := slices.Repeat([]float64{1}, d), lists.Map(means, func(v float64) float64 { return -v })
	full := make(map[int]bool)
	for j, m := range means {
		if float64(d)*m*m > norms[j]/2 {
			full[j], right[j] = true, 0
		}
	}
	sparse := c.Operator
	if len(full) > 0 {
		columns := space.Transpose(withoutMeans(rows, means, full), p)
		csr := linops.NewCSRBothWays(dev, d, p, space.Transpose(columns, d), columns)
		c.Own(csr)
		sparse = csr
	}
	s := linops.NewShifted(dev, sparse, left, right)
	c.Own(s)
	known := linops.StructureOf(s)
	c.structure.Storage = linops.Storage{Dense: c.structure.Dense, PickRows: known.PickRows, Shifted: known.Shifted}
	c.structure.On, c.structure.ScaleColumns = known.On, known.ScaleColumns
}

// withoutMeans subtracts the means from some columns.
func withoutMeans(rows space.Rows, means []float64, of map[int]bool) space.Rows {
	list := slices.Sorted(maps.Keys(of))
	s := space.Rows{Indptr: []int{0}}
	at := make(map[int]float64)
	for i := range len(rows.Indptr) - 1 {
		for _, j := range list {
			at[j] = -means[j]
		}
		for u := rows.Indptr[i]; u < rows.Indptr[i+1]; u++ {
			if j := rows.Indices[u]; of[j] {
				at[j] += rows.Values[u]
			} else {
				s.Indices, s.Values = append(s.Indices, j), append(s.Values, rows.Values[u])
			}
		}
		for _, j := range list {
			s.Indices, s.Values = append(s.Indices, j), append(s.Values, at[j])
		}
		s.Indptr = append(s.Indptr, len(s.Indices))
	}
	return s
}

// Means are m.
func (c *Centered) Means() []float64 { return c.means.ToHost() }

// columnNorms2 is that of A, norms, minus d m^2. Where the difference is inaccurate by cancellation
// the column itself is computed.
func (c *Centered) columnNorms2(norms []float64) []float64 {
	d, _ := c.Dims()
	var lost []int
	for j, m := range c.means.ToHost() {
		rest := norms[j] - float64(d)*m*m
		if rest < lostDigits*norms[j] {
			lost = append(lost, j)
		}
		norms[j] = max(0, rest)
	}
	for len(lost) > 0 {
		some := lost[:min(len(lost), columnBatch)]
		lost = lost[len(some):]
		for i, norm := range c.lengths2(some) {
			norms[some[i]] = norm
		}
	}
	return norms
}

// lostDigits is the smallest ratio of the squared norms of a column after and before centering at
// which the former is computed by a subtraction. columnBatch is the number of columns computed at a
// time.
const (
	lostDigits  = 1e-6
	columnBatch = 64
)

// lengths2 computes the squared lengths of the given columns. A column that is constant up to
// rounding errors has length 0.
func (c *Centered) lengths2(columns []int) []float64 {
	d, p := c.Dims()
	dev := c.ones.Device()
	units, images := dev.Alloc(len(columns), p), dev.Alloc(len(columns), d)
	defer array.Free(units, images)
	host := make([]float64, len(columns)*p)
	for i, j := range columns {
		host[i*p+j] = 1
	}
	dev.Upload(units, host)
	c.Forward(images, units)
	c.ones.Remove(images) // subtracts the rounding error of the first mean
	norms := make([]float64, len(columns))
	dev.Dot(norms, images, images)
	means := c.means.ToHost()
	for i, j := range columns {
		if rounding := 4 * 0x1p-52 * means[j]; norms[i] <= float64(d)*rounding*rounding {
			norms[i] = 0
		}
	}
	return norms
}

// on centers A on the space, (I - 1 1*/d) A E, whose means are E* m.
func (c *Centered) on(dev array.Device, t space.Space) linops.Restricted {
	r, native := linops.On(dev, c.Operator, t)
	if !native {
		r.Release()
		return nil
	}
	_, n := t.Dims()
	o := &Centered{without: without{Operator: r, pi: c.ones}, ones: c.ones, means: dev.Alloc(1, n)}
	o.Hold(o.means)
	if n > 0 {
		t.Coordinates(o.means, c.means)
	}
	o.know()
	return linops.Owning(o, r, o)
}

package together

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/space"
)

// Part is the operator R X diag(s), or (I - 11*/n) R X diag(s).
type Part struct {
	*membership
	scale     []float64 // s, nil for ones
	structure linops.Structure
}

// membership is what a part is to the matrix.
type membership struct {
	m        *Matrix
	rows     []int
	out      []int
	centered bool
	means    []float64 // of R X, where they are subtracted
	number   int       // among the parts
	left     bool
	norms2   []float64
	lost     []bool    // columns most of which is left out
	q        []float64 // Q at stored columns, one after the other
}

// mostLost is the share of a column's squared length below which differences of Gram matrices are not exact enough for
// it.
const mostLost = 0.25

// Keep makes a part of the rows at increasing places, with centered that without the means of its columns, which in X
// must be 0 then. Parts that solve at once must all be there before the first of them asks for a product.
func (m *Matrix) Keep(rows []int, centered bool) *Part {
	s := &membership{m: m, rows: rows, centered: centered, number: len(m.slots)}
	for i, next := 0, 0; i < m.d; i++ {
		if next < len(rows) && rows[next] == i {
			next++
		} else {
			s.out = append(s.out, i)
		}
	}
	if centered {
		s.means = make([]float64, m.p)
		for _, i := range s.out {
			floats.Sub(s.means, m.row(i))
		}
		floats.Scale(1/float64(len(rows)), s.means)
	}
	s.measure()
	p := &Part{membership: s}
	p.know()
	m.slots = append(m.slots, nil)
	m.live++
	return p
}

func (s *membership) measure() {
	whole := s.m.norms2()
	s.norms2, s.lost = slices.Clone(whole), make([]bool, s.m.p)
	s.each(func(row []float64) {
		for j, v := range row {
			s.norms2[j] -= v * v
		}
	})
	for j, v := range whole {
		if s.lost[j] = s.norms2[j] < mostLost*v; s.lost[j] {
			x := lists.Map(s.rows, func(i int) float64 { return s.m.row(i)[j] })
			if s.centered {
				floats.AddConst(-stat.Mean(x, nil), x)
			}
			s.norms2[j] = floats.Dot(x, x)
		}
	}
}

func (s *membership) each(f func(row []float64)) {
	for _, i := range s.out {
		f(s.m.row(i))
	}
	if s.centered {
		row := slices.Clone(s.means)
		floats.Scale(math.Sqrt(float64(len(s.rows))), row)
		f(row)
	}
}

// Means are the means of the columns of R X, nil where they are not subtracted.
func (p *Part) Means() []float64 { return p.means }

// Release says that the part asks for no more products together with the others.
func (p *Part) Release() { p.m.leave(p) }

// Bytes is 0: what the parts share belongs to the matrix.
func (p *Part) Bytes() int64 { return 0 }

func (p *Part) know() {
	p.structure = linops.Complete(p, linops.Structure{
		Entries:      linops.Known(float64(len(p.rows)) * float64(p.m.p)),
		ColumnNorms2: p.columnNorms2,
		On:           p.on,
		ScaleColumns: func(_ array.Device, s []float64) linops.Restricted {
			scaled := &Part{membership: p.membership, scale: slices.Clone(s)}
			if p.scale != nil {
				floats.Mul(scaled.scale, p.scale)
			}
			scaled.know()
			return unowned{scaled}
		},
		Storage: linops.Storage{Dense: p.dense},
	})
}

// unowned is a part in other units, which is the same member.
type unowned struct{ *Part }

func (unowned) Release() {}

func (p *Part) Structure() linops.Structure { return p.structure }
func (p *Part) Dims() (d, n int)            { return len(p.rows), p.m.p }

func (p *Part) columnNorms2() []float64 {
	norms := slices.Clone(p.norms2)
	if p.scale != nil {
		floats.Mul(norms, p.scale)
		floats.Mul(norms, p.scale)
	}
	return norms
}

func (p *Part) Forward(dst, b array.Batch) {
	p.m.check("Forward", dst, b, len(p.rows), p.m.p)
	p.forward(dst, b.ToHost())
}

// forward sets dst_i = R X b_i, for vectors b_i in the part's units, one after the other, which it overwrites.
func (p *Part) forward(dst array.Batch, b []float64) {
	r := &request{forward: b}
	scaleRows(b, p.scale)
	if p.m.ask(p, r); !r.broken.IsZero() {
		dst.Device().Copy(dst, r.broken.Rows(0, dst.K()).Cols(0, dst.N()))
		return
	}
	out := make([]float64, 0, dst.K()*dst.N())
	for k := range dst.K() {
		out = append(out, p.gather(r.out[k*p.m.d:(k+1)*p.m.d])...)
	}
	dst.Device().Upload(dst, out)
}

func (s *membership) gather(x []float64) []float64 {
	some := lists.Pick(x, s.rows)
	if s.centered {
		floats.AddConst(-stat.Mean(some, nil), some)
	}
	return some
}

func (s *membership) scatter(z []float64) []float64 {
	mean := 0.0
	if s.centered {
		mean = stat.Mean(z, nil)
	}
	x := make([]float64, s.m.d)
	for k, i := range s.rows {
		x[i] = z[k] - mean
	}
	return x
}

// scaleRows multiplies vectors, one after the other, by s, which is nil for ones.
func scaleRows(x, s []float64) {
	for n := len(s); n > 0 && len(x) > 0; x = x[n:] {
		floats.Mul(x[:n], s)
	}
}

func (p *Part) Adjoint(dst, z array.Batch) {
	p.m.check("Adjoint", dst, z, p.m.p, len(p.rows))
	r, host := &request{}, z.ToHost()
	for k := range z.K() {
		r.adjoint = append(r.adjoint, p.scatter(host[k*z.N():(k+1)*z.N()])...)
	}
	if p.m.ask(p, r); !r.broken.IsZero() {
		dst.Device().Copy(dst, r.broken.Rows(0, dst.K()).Cols(0, dst.N()))
		return
	}
	scaleRows(r.out, p.scale)
	dst.Device().Upload(dst, r.out)
}

// dense is the part as a matrix of its own.
func (p *Part) dense() *mat.Dense {
	x := mat.NewDense(len(p.rows), p.m.p, nil)
	for k, i := range p.rows {
		row := x.RawRowView(k)
		copy(row, p.m.row(i))
		if p.centered {
			floats.Sub(row, p.means)
		}
		scaleRows(row, p.scale)
	}
	return x
}

// on are the columns at a set of coordinates; nil for other spaces.
func (p *Part) on(dev array.Device, t space.Space) linops.Restricted {
	if t.Form().Kind != space.Subset {
		return nil
	}
	c := &columns{Part: p, dev: dev, set: t.Form().Set}
	missing := false
	for _, j := range c.set {
		missing = missing || p.m.place[j] < 0
	}
	if missing {
		p.m.ask(p, &request{columns: c.set})
	}
	for _, j := range c.set {
		at := p.m.place[j]
		c.places = append(c.places, at)
		c.end = max(c.end, at+1)
		if p.scale != nil {
			c.units = append(c.units, p.scale[j])
		}
	}
	c.structure = linops.Complete(c, linops.Structure{
		Entries:  linops.Known(float64(len(p.rows)) * float64(len(c.set))),
		Products: c.products,
		Storage:  linops.Storage{WeighRows: c.weigh},
	})
	return c
}

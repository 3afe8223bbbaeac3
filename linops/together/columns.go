package together

import (
	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/linops"
)

// columns are some columns of a part.
type columns struct {
	*Part
	dev       array.Device
	set       []int
	places    []int     // of the stored columns, before end
	end       int       // one more than the last of them
	units     []float64 // s there, nil for ones
	own       *linops.Dense
	structure linops.Structure
}

func (c *columns) Structure() linops.Structure {
	if c.own != nil {
		return c.own.Structure()
	}
	return c.structure
}

func (c *columns) Dims() (d, n int) { return len(c.rows), len(c.set) }

func (c *columns) Bytes() int64 {
	if c.own != nil {
		return c.own.Bytes()
	}
	return 0
}

func (c *columns) Release() {
	if c.own != nil {
		c.own.Release()
	}
}

func (c *columns) Forward(dst, b array.Batch) {
	c.m.check("Forward", dst, b, len(c.rows), len(c.set))
	if c.own != nil {
		c.own.Forward(dst, b)
		return
	}
	k, n, host := b.K(), len(c.set), b.ToHost()
	x := make([]float64, k*c.m.p)
	for i := range k {
		for s, j := range c.set {
			x[i*c.m.p+j] = host[i*n+s]
		}
	}
	c.forward(dst, x)
}

func (c *columns) Adjoint(dst, z array.Batch) {
	c.m.check("Adjoint", dst, z, len(c.set), len(c.rows))
	if c.own != nil {
		c.own.Adjoint(dst, z)
		return
	}
	dev, k, host := dst.Device(), z.K(), z.ToHost()
	var x []float64
	for i := range k {
		x = append(x, c.scatter(host[i*z.N():(i+1)*z.N()])...)
	}
	all, wide := dev.Put(x, k, c.m.d), dev.Alloc(k, c.end)
	defer array.Free(all, wide)
	c.m.span(0, c.end, func(vectors array.Batch, at int) {
		dev.Gemm(false, true, 1, all, vectors, 0, wide.Cols(at, at+vectors.K()))
	})
	values, out := wide.ToHost(), make([]float64, 0, k*len(c.set))
	for i := range k {
		for _, at := range c.places {
			out = append(out, values[i*c.end+at])
		}
	}
	scaleRows(out, c.units)
	dev.Upload(dst, out)
}

// weigh makes a copy of the columns with weighted rows.
func (c *columns) weigh(w []float64) bool {
	x := make([]float64, 0, len(c.rows)*len(c.set))
	for k, i := range c.rows {
		row := c.m.row(i)
		for s, j := range c.set {
			v := row[j]
			if c.centered {
				v -= c.means[j]
			}
			if c.units != nil {
				v *= c.units[s]
			}
			x = append(x, v*w[k])
		}
	}
	on := c.dev.Alloc(len(c.rows), len(c.set))
	c.dev.Upload(on, x)
	c.own = linops.DenseOf(on)
	return true
}

func (s *membership) fill() (rows int) {
	if rows = len(s.out); s.centered {
		rows++
	}
	have := 0
	if rows > 0 {
		have = len(s.q) / rows
	}
	columns := s.m.columns[have:]
	more := make([]float64, len(columns)*rows)
	at := 0
	s.each(func(row []float64) {
		for c, j := range columns {
			more[c*rows+at] = row[j]
		}
		at++
	})
	s.q = append(s.q, more...)
	return rows
}

// products sets dst to the inner products with other columns of the same part. It does nothing for any other operator.
func (c *columns) products(dst array.Batch, b linops.Operator) bool {
	other, ok := b.(*columns)
	if !ok || other.membership != c.membership || other.own != nil || c.own != nil {
		return false
	}
	if max(c.end, other.end) > len(c.m.gram) {
		c.m.ask(c.Part, &request{gram: true})
	}
	k, n := len(c.set), len(other.set)
	values := make([]float64, 0, k*n)
	for _, i := range c.places {
		for _, j := range other.places {
			values = append(values, c.m.entry(i, j))
		}
	}
	if rows := c.fill(); rows > 0 {
		c.subtract(dst.Device(), values, rows, other)
	}
	for i := range k {
		row := values[i*n : (i+1)*n]
		scaleRows(row, other.units)
		if c.units != nil {
			floats.Scale(c.units[i], row)
		}
	}
	dst.Device().Upload(dst, values)
	c.repair(dst, other)
	return true
}

// subtract subtracts <Q_i, Q_j>.
func (c *columns) subtract(dev array.Device, values []float64, rows int, other *columns) {
	k, n, end := len(c.set), len(other.set), other.end
	var some []float64
	for _, at := range c.places {
		some = append(some, c.q[at*rows:(at+1)*rows]...)
	}
	mine, all, square := dev.Put(some, 1, k*rows), dev.Put(c.q[:end*rows], 1, end*rows), dev.Alloc(1, k*end)
	dev.GemmEach(false, true, 1, mine, array.Shape{Rows: k, Cols: rows}, all, array.Shape{Rows: end, Cols: rows}, 0,
		square)
	wide := square.ToHost()
	array.Free(mine, all, square)
	for i := range k {
		for s, at := range other.places {
			values[i*n+s] -= wide[i*end+at]
		}
	}
}

// repair computes the products of columns most of which is left out, directly.
func (c *columns) repair(dst array.Batch, other *columns) {
	dev := dst.Device()
	one := func(of *columns, s int) array.Batch {
		unit := make([]float64, len(of.set))
		unit[s] = 1
		b, z := dev.Put(unit, 1, len(unit)), dev.Alloc(1, len(c.rows))
		of.Forward(z, b)
		b.Free()
		return z
	}
	for s, j := range c.set {
		if c.lost[j] {
			z := one(c, s)
			other.Adjoint(dst.Rows(s, s+1), z)
			z.Free()
		}
	}
	for s, j := range other.set {
		if !other.lost[j] {
			continue
		}
		z, column := one(other, s), dev.Alloc(1, len(c.set))
		c.Adjoint(column, z)
		values, all := column.ToHost(), dst.ToHost()
		for i, v := range values {
			all[i*len(other.set)+s] = v
		}
		dev.Upload(dst, all)
		array.Free(z, column)
	}
}

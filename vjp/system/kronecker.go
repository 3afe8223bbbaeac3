package system

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/numerics/kronecker"
	"surepipe/internal/pivoted"
	"surepipe/linops"
)

// blockError of c_g is that of a block's entries.
const blockError = 1e-11

// kronecker is K^{-1} of K = G (x) I + Q for a Q with blocks c_g (I - u_g u_g*), |u_g| = 1 or 0: those of a ridge, and
// of norms of the k coefficients of a column. It is nil where the equations have no such form or it is ill-conditioned.
func (e *Equations) kronecker(dev array.Device) *kronecker.Inverse {
	x, k := linops.KroneckerOf(e.M)
	if x == nil || e.Combined {
		return nil
	}
	_, p := x.Dims()
	blocks := make([]kronecker.Block, p)
	for g := range blocks {
		blocks[g].Columns = []int{g}
		var ok bool
		if blocks[g].U, ok = e.block(g, k, &blocks[g].C); !ok {
			return nil
		}
	}
	gram := mat.NewDense(p, p, linops.GramOf(dev, x))
	for i := range p {
		if !(gram.At(i, i) > 0) {
			return nil
		}
	}
	align(gram, blocks)
	s := kronecker.New(gram, k, blocks)
	if s == nil || s.Condition > WellConditioned || !e.nothing(dev, s.Null, gram) {
		return nil
	}
	return s
}

// parallel is the cosine between columns, less than 1, from which they may be equal.
const parallel = 1 - 1e-12

// align gives columns that may be equal the direction of the longest of their coefficients. Where they are, the
// coefficients are parallel at a solution: penalties of equal weights depend on their sum alone.
func align(gram *mat.Dense, blocks []kronecker.Block) {
	byLength := lists.Make(len(blocks), func(i int) int { return i })
	slices.SortStableFunc(byLength, func(i, j int) int { return cmp.Compare(blocks[i].C, blocks[j].C) })
	for a, i := range byLength {
		for _, j := range byLength[a+1:] {
			g := gram.At(i, j)
			if size := math.Sqrt(gram.At(i, i)) * math.Sqrt(gram.At(j, j)); !(math.Abs(g) >= parallel*size) {
				continue
			}
			if u := blocks[i].U; u != nil && blocks[j].U != nil {
				blocks[j].U = lists.Make(len(u), func(r int) float64 { return math.Copysign(1, g) * u[r] })
			}
		}
	}
}

// nothing reports that M takes the rows of x, which K takes to 0, to 0 up to rounding errors: what G tells of columns
// is their relative difference down to the root of the machine's precision only.
func (e *Equations) nothing(dev array.Device, x, gram *mat.Dense) bool {
	if x == nil {
		return true
	}
	zeros, n := x.Dims()
	d, _ := e.M.Dims()
	p, _ := gram.Dims()
	in, out := dev.Alloc(zeros, n), dev.Alloc(zeros, d)
	defer array.Free(in, out)
	dev.Upload(in, x.RawMatrix().Data)
	e.M.Forward(out, in)
	images := mat.NewDense(zeros, d, out.ToHost())
	for r := range zeros {
		size := 0.0
		for i, v := range x.RawRowView(r) {
			size += math.Abs(v) * math.Sqrt(gram.At(i*p/n, i*p/n))
		}
		if !(floats.Norm(images.RawRowView(r), 2) <= pivoted.LeastPivot(d, n)*size) {
			return false
		}
	}
	return dev.Err() == nil
}

// blocksOf are the blocks of the derivative by the inverse, of the order of the outcomes.
func (e *Equations) blocksOf(dev array.Device, s *kronecker.Inverse, k int) func(order int) ([]float64, error) {
	x, _ := linops.KroneckerOf(e.M)
	if !linops.StructureOf(x).Entries.Known {
		return nil
	}
	return func(order int) ([]float64, error) {
		if order != k {
			return nil, nil
		}
		return s.Blocks(linops.ToDense(dev, x)), dev.Err()
	}
}

// block finds c and u of a group, nil for 0; ok is false where Q has a form of its own there.
func (e *Equations) block(g, k int, c *float64) (u []float64, ok bool) {
	if e.Q == nil {
		return nil, true
	}
	_, n := e.M.Dims()
	at, most, rows := g*k, 0, e.Q[g*k*n:(g+1)*k*n]
	trace, ridge := 0.0, true
	for i := range k {
		trace += rows[i*n+at+i]
		if rows[i*n+at+i] < rows[most*n+at+most] {
			most = i // where u is largest
		}
		ridge = ridge && rows[i*n+at+i] == rows[at] && (i == 0 || rows[at+i] == 0)
	}
	if *c = trace / float64(k); !ridge {
		*c = trace / float64(k-1)
		u = lists.Make(k, func(i int) float64 { return -rows[most*n+at+i] / *c })
		u[most]++
		floats.Scale(1/math.Sqrt(u[most]), u)
	}
	for i := range k {
		for j, v := range rows[i*n : (i+1)*n] {
			if j == at+i {
				v -= *c
			}
			if u != nil && j >= at && j < at+k {
				v += *c * u[i] * u[j-at]
			}
			if math.Abs(v) > blockError**c {
				return nil, false
			}
		}
	}
	return u, true
}

// onDevice returns the product with K^{-1} on the device, and what holds its memory.
func onDevice(dev array.Device, s *kronecker.Inverse, k int) (times func(dst, t array.Batch), held array.Held) {
	p, _ := s.M.Dims()
	shape, block := array.Shape{Rows: p, Cols: p}, array.Shape{Rows: p, Cols: k}
	a := dev.Alloc(1, p*p)
	dev.Upload(a, s.M.RawMatrix().Data)
	held.Hold(a)
	if s.V == nil {
		return func(dst, t array.Batch) { dst.Device().GemmEach(false, false, 1, a, shape, t, block, 0, dst) }, held
	}
	var tv mat.Dense
	tv.Mul(s.T, s.V)
	v, w := dev.Alloc(s.V.Dims()), dev.Alloc(s.V.Dims())
	dev.Upload(v, s.V.RawMatrix().Data)
	dev.Upload(w, tv.RawMatrix().Data)
	held.Hold(v, w)
	return func(dst, t array.Batch) {
		dev := dst.Device()
		dev.GemmEach(false, false, 1, a, shape, t, block, 0, dst)
		z := dev.Alloc(t.K(), v.K())
		defer z.Free()
		dev.Gemm(false, true, 1, t, v, 0, z)
		dev.Gemm(false, false, 1, z, w, 1, dst)
	}, held
}

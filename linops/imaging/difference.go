package imaging

import (
	"sync"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/internal/product"
)

// Difference takes the forward differences between neighbours in a vector or in an image, and none
// across the border.
//
//	NewDifference1D    dst_i = b_{i+1} - b_i
//	NewDifference2D    dst = [D_rows b; D_cols b],
//	                   (D_rows b)_{r,c} = b_{r+1,c} - b_{r,c}
//	                   (D_cols b)_{r,c} = b_{r,c+1} - b_{r,c}
//
// The adjoint is the negative divergence. D*D is the Laplacian of a path or a grid with reflecting
// borders, which the cosine transform C diagonalizes:
//
//	D*D = C* diag(u_k + v_l) C,    u_k = 4 sin(pi k / (2 rows))^2,
//	                               v_l = 4 sin(pi l / (2 cols))^2.
//
// This gives ||D||^2 = u_{rows-1} + v_{cols-1}, below 8 (1-D: below 4), and (eta D*D + I)^{-1},
// which takes O(n log n) and is computed on the host. After [Difference.Load] it is computed on
// another device too, for images with sides of up to 4096; else the vectors of that device are copied
// to the host and back. Forward and Adjoint run on the device.
//
// Strang, The discrete cosine transform, SIAM Review 41 (1999).
type Difference struct {
	mapped
	rows, cols int
	laplacian
}

// NewDifference1D returns the (n-1) x n operator of a vector's differences.
func NewDifference1D(n int) *Difference {
	product.CheckSize("Difference1D", max(n-1, min(n, 0)), n)
	return newDifference("Difference1D", min(n, 1), n)
}

// NewDifference2D returns the operator of an image's differences. The image is row-major, rows x
// cols pixels; its (rows-1) cols differences down the columns come first, as a row-major (rows-1) x
// cols image, and then its rows (cols-1) differences along the rows, as a rows x (cols-1) image.
func NewDifference2D(rows, cols int) *Difference {
	product.CheckSize("Difference2D", rows, cols)
	return newDifference("Difference2D", rows, cols)
}

// pairs are the pixels below and above each other, and then right and left of each other.
func (a *Difference) pairs() *linops.Pairs {
	p := &linops.Pairs{Plus: make([]int32, 0, a.d), Minus: make([]int32, 0, a.d)}
	add := func(plus, minus int) { p.Plus, p.Minus = append(p.Plus, int32(plus)), append(p.Minus, int32(minus)) }
	for at := a.cols; at < a.rows*a.cols; at++ {
		add(at, at-a.cols)
	}
	for at := range a.rows * a.cols {
		if at%a.cols > 0 {
			add(at, at-1)
		}
	}
	return p
}

func newDifference(name string, rows, cols int) *Difference {
	a := &Difference{rows: rows, cols: cols, laplacian: newLaplacian(rows, cols)}
	a.mapped = mapped{twin: twin{on: a.multiply}, name: name, d: a.down() + a.along(), p: rows * cols}
	s := linops.Structure{ColumnNorms2: a.columnNorms2, SolveNormal: a.solveNormal, Pairs: sync.OnceValue(a.pairs)}
	if rows > 0 && cols > 0 {
		s.Norm2 = linops.Known(largestDifference(rows, Reflecting) + largestDifference(cols, Reflecting))
		s.Cosines = gridCosines(rows, cols)
	}
	if a.d == 1 {
		s.Rows = linops.Known(2) // a single difference
	}
	a.structure = linops.Complete(a, s)
	return a
}

func (a *Difference) down() int { return max(a.rows-1, 0) * a.cols }

func (a *Difference) along() int { return a.rows * max(a.cols-1, 0) }

func (a *Difference) multiply(dst, src array.Batch, do action) {
	if do.kind == doForward {
		a.forward(dst, src)
	} else {
		a.adjoint(dst, src)
	}
}

func (a *Difference) forward(dst, b array.Batch) {
	if a.d == 0 {
		return
	}
	dev := dst.Device()
	if a.rows > 1 {
		dev.Lin(dst.Cols(0, a.down()), 1, b.Cols(a.cols, a.p), -1, b.Cols(0, a.p-a.cols))
	}
	if a.cols > 1 {
		a.eachImage(dst, b, func(h, x array.Batch) {
			dev.Lin(h, 1, x.Cols(1, a.cols), -1, x.Cols(0, a.cols-1))
		})
	}
}

func (a *Difference) adjoint(dst, z array.Batch) {
	if a.p == 0 {
		return
	}
	dev := dst.Device()
	none := array.Batch{}
	if a.rows > 1 {
		v, m := z.Cols(0, a.down()), a.down()
		dev.Lin(dst.Cols(0, a.cols), -1, v.Cols(0, a.cols), 0, none)
		dev.Lin(dst.Cols(a.cols, m), 1, v.Cols(0, m-a.cols), -1, v.Cols(a.cols, m))
		dev.Lin(dst.Cols(m, a.p), 1, v.Cols(m-a.cols, m), 0, none)
	} else {
		dev.Fill(dst, 0)
	}
	if a.cols > 1 {
		a.eachImage(z, dst, func(h, x array.Batch) {
			left, right := x.Cols(0, a.cols-1), x.Cols(1, a.cols)
			dev.Lin(left, 1, left, -1, h)
			dev.Lin(right, 1, right, 1, h)
		})
	}
}

// eachImage calls f with the differences along the rows that d holds and the image that x holds,
// both as batches of rows: once for all vectors where an image is a single row, else once for each.
func (a *Difference) eachImage(d, x array.Batch, f func(h, x array.Batch)) {
	h := d.Cols(a.down(), d.N())
	if a.rows == 1 {
		f(h, x)
		return
	}
	for i := range x.K() {
		f(h.Rows(i, i+1).Reshape(a.rows, a.cols-1), x.Rows(i, i+1).Reshape(a.rows, a.cols))
	}
}

func (a *Difference) solveNormal(dst, rhs array.Batch, eta float64) bool {
	product.CheckSolve(a.name, a.d, a.p, dst, rhs, eta)
	if a.d == 0 {
		eta = 0
	}
	return a.solve(dst, rhs, eta)
}

func (a *Difference) columnNorms2() []float64 {
	norms := make([]float64, a.rows*a.cols)
	for r := range a.rows {
		for c := range a.cols {
			n := 4
			for _, border := range [...]bool{r == 0, r == a.rows-1, c == 0, c == a.cols-1} {
				if border {
					n--
				}
			}
			norms[r*a.cols+c] = float64(n)
		}
	}
	return norms
}

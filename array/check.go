package array

import (
	"fmt"
	"math"
)

// op is the shape of op(A), transposed where the flag says so.
func (s Shape) op(trans bool) Shape {
	if trans {
		return Shape{s.Cols, s.Rows}
	}
	return s
}

// Given is y, or x where y is the zero Batch: a shape to check where an operand is optional. It is for
// implementations of [Device].
func Given(y, x Batch) Batch {
	if y.IsZero() {
		return x
	}
	return y
}

// CheckSame panics unless every x has dst's shape or is a single vector of its length. It is for implementations
// of [Device].
func CheckSame(op string, dst Batch, xs ...Batch) {
	for _, x := range xs {
		if x.n != dst.n || (x.k != dst.k && x.k != 1) {
			panic(fmt.Sprintf("array: %s of %s into %s", op, x, dst))
		}
	}
}

// CheckLinEach panics unless there is a coefficient for every vector of dst; c is not used where y is the zero
// Batch. It is for implementations of [Device].
func CheckLinEach(dst Batch, a, c []float64, y Batch) {
	if len(a) != dst.k || (!y.IsZero() && len(c) != dst.k) {
		panic(fmt.Sprintf("array: LinEach with %d and %d coefficients into %s", len(a), len(c), dst))
	}
}

// CheckDot panics unless x and y have a vector for every result, or a single one, and one length. It is for
// implementations of [Device].
func CheckDot(out []float64, x, y Batch) {
	if x.n != y.n || (x.k != len(out) && x.k != 1) || (y.k != len(out) && y.k != 1) {
		panic(fmt.Sprintf("array: Dot of %s and %s into %d values", x, y, len(out)))
	}
}

// CheckGemm panics unless op(A) op(B) has the shape of C, and returns the number of columns of op(A). It is for
// implementations of [Device].
func CheckGemm(transA, transB bool, a, b, c Batch) (inner int) {
	sa, sb := Shape{a.k, a.n}.op(transA), Shape{b.k, b.n}.op(transB)
	if sa.Rows != c.k || sb.Cols != c.n || sa.Cols != sb.Rows {
		panic(fmt.Sprintf("array: Gemm of %s (trans %t) and %s (trans %t) into %s", a, transA, b, transB, c))
	}
	return sa.Cols
}

// CheckGemmEach panics unless the products of GemmEach have the length of c's vectors: op(A_i) is m x inner, and
// op(B_i) inner x n. It is for implementations of [Device].
func CheckGemmEach(transA, transB bool, a Batch, sa Shape, b Batch, sb Shape, c Batch) (m, n, inner int) {
	oa, ob := sa.op(transA), sb.op(transB)
	if sa.Len() != a.n || sb.Len() != b.n || oa.Cols != ob.Rows || oa.Rows*ob.Cols != c.n ||
		(a.k != 1 && a.k != c.k) || (b.k != 1 && b.k != c.k) {
		panic(fmt.Sprintf("array: GemmEach of %s as %v (trans %t) and %s as %v (trans %t) into %s", a, sa, transA, b,
			sb, transB, c))
	}
	return oa.Rows, ob.Cols, oa.Cols
}

// CheckIndex returns coordinates as numbers of 32 bits, and one more than the largest of them. It panics where one is
// negative or above the largest int32. It is for implementations of [Device].
func CheckIndex(idx []int) (list []int32, end int) {
	list = make([]int32, len(idx))
	for i, v := range idx {
		if v < 0 || v > math.MaxInt32 {
			panic(fmt.Sprintf("array: coordinate %d at place %d of an index, expected 0 to %d", v, i, math.MaxInt32))
		}
		list[i] = int32(v)
		end = max(end, v+1)
	}
	return list, end
}

// CheckGather panics unless dst_ij = x_i[idx_j] is defined, where end is one more than the largest coordinate; scatter
// stands for Scatter. It is for implementations of [Device].
func CheckGather(scatter bool, dst, x Batch, idx Index, end int) {
	op, short, long := "Gather", dst, x
	if scatter {
		op, short, long = "Scatter", x, dst
	}
	if dst.k != x.k || short.n != idx.Len() {
		panic(fmt.Sprintf("array: %s of %s at %d coordinates into %s", op, x, idx.Len(), dst))
	}
	if end > long.n {
		panic(fmt.Sprintf("array: %s of %s into %s at coordinate %d", op, x, dst, end-1))
	}
}

// CheckCSR panics unless the arguments are those of a rows x cols matrix with at most the largest int32 of columns. It
// returns the columns of the entries. It is for implementations of [Device].
func CheckCSR(rows, cols int, indptr, indices []int, values []float64) (columns []int32) {
	if rows < 0 || cols < 0 || cols > math.MaxInt32 || len(indptr) != rows+1 || indptr[0] != 0 ||
		len(indices) != len(values) || indptr[rows] != len(values) {
		panic(fmt.Sprintf("array: a CSR matrix of %d x %d with %d row pointers, %d indices, %d values", rows, cols,
			len(indptr), len(indices), len(values)))
	}
	for r := range rows {
		if indptr[r+1] < indptr[r] {
			panic(fmt.Sprintf("array: row %d of a CSR matrix starts at %d and ends at %d", r, indptr[r], indptr[r+1]))
		}
	}
	columns = make([]int32, len(indices))
	for i, v := range indices {
		if v < 0 || v >= cols {
			panic(fmt.Sprintf("array: column %d in a CSR matrix of %d columns", v, cols))
		}
		columns[i] = int32(v)
	}
	return columns
}

// CheckMulCSR panics unless the operands of MulCSR fit. It is for implementations of [Device].
func CheckMulCSR(dst Batch, a CSR, x Batch) {
	if rows, cols := a.Dims(); x.n != cols || dst.n != rows || x.k != dst.k {
		panic(fmt.Sprintf("array: MulCSR of a %d x %d matrix and %s into %s", rows, cols, x, dst))
	}
}

// CheckPattern panics unless places are row-major places of a rows x cols matrix. It does not check
// that they are distinct. It is for implementations of [Device].
func CheckPattern(rows, cols int, places []int) {
	if rows < 0 || cols < 0 || rows > math.MaxInt32 || cols > math.MaxInt32 || len(places) > math.MaxInt32 {
		panic(fmt.Sprintf("array: a pattern of %d places in a %d x %d matrix", len(places), rows, cols))
	}
	for e, p := range places {
		if p < 0 || cols == 0 || p/cols >= rows {
			panic(fmt.Sprintf("array: place %d of a pattern is %d, expected 0 to %d", e, p, rows*cols-1))
		}
	}
}

// PatternRank is the number r of columns of the factors of a product in a pattern: left is m x r,
// right n x r, row-major. It panics if the lengths fit no r, or unless every operand has one vector or as many as the
// result, which is one of them. It is for implementations of [Device].
func PatternRank(op string, p Pattern, result, z, left, right Batch) int {
	m, n := p.Dims()
	r := 0
	switch {
	case m > 0:
		r = left.n / m
	case n > 0:
		r = right.n / n
	}
	if z.n != p.Len() || left.n != m*r || right.n != n*r {
		panic(fmt.Sprintf("array: %s of %s and %s with values %s in a pattern of %d places in a %d x %d matrix", op,
			left, right, z, p.Len(), m, n))
	}
	for _, x := range []Batch{z, left, right} {
		if x.k != 1 && x.k != result.k {
			panic(fmt.Sprintf("array: %s of %s, %s and %s into %s", op, z, left, right, result))
		}
	}
	return r
}

// CheckBlocks panics unless the blocks are some coordinates each, in increasing order and without overlap. It returns
// the number of their values and one more than the last coordinate. It is for implementations of [Device].
func CheckBlocks(first, size []int) (values, end int) {
	if len(first) != len(size) {
		panic(fmt.Sprintf("array: the first coordinates of %d blocks and the sizes of %d", len(first), len(size)))
	}
	for b, from := range first {
		if from < end || size[b] < 0 || from > math.MaxInt32-size[b] {
			panic(fmt.Sprintf("array: block %d has %d coordinates from %d on, where the one before ends at %d", b,
				size[b], from, end))
		}
		end = from + size[b]
		values += size[b] * size[b]
	}
	return values, end
}

// CheckMulBlocks panics unless the operands of MulBlocks fit. It is for implementations of [Device].
func CheckMulBlocks(dst Batch, b Blocks, values, x Batch) {
	if dst.k != x.k || dst.n != x.n || b.End() > x.n || values.k != 1 || values.n != b.Len() {
		panic(fmt.Sprintf("array: MulBlocks of blocks of %d values up to coordinate %d, with the values %s, "+
			"and %s into %s", b.Len(), b.End(), values, x, dst))
	}
}

// CheckDFT panics unless there are transforms of a shape. It is for implementations of [Device].
func CheckDFT(s Shape) {
	if s.Rows < 1 || s.Cols < 1 || s.Rows > math.MaxInt32/2/s.Cols {
		panic(fmt.Sprintf("array: a Fourier transform of %d x %d", s.Rows, s.Cols))
	}
}

// CheckMulDFT panics unless dst and x are arrays of the transform's shape. It is for implementations
// of [Device].
func CheckMulDFT(dst Batch, f DFT, x Batch) {
	if s := f.Shape(); dst.k != x.k || dst.n != 2*s.Len() || x.n != dst.n {
		panic(fmt.Sprintf("array: MulDFT of %s into %s, complex arrays of %d x %d", x, dst, s.Rows, s.Cols))
	}
}

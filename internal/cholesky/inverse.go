package cholesky

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"surepipe/internal/parallel"
)

// Inverse returns the entries of S^{-1} at the places of the analysis, for a factor of S by it
// (Takahashi, Fagan and Chin 1973; Erisman and Tinney 1975). For a supernode with the columns L1 =
// [L11; L21], from the last one to the first, and with Z22 of the rows below, which is part of what
// its parent has found,
//
//	Y = L21 L11^{-1},    Z21 = -Z22 Y,    Z11 = L11^{-*} L11^{-1} - Y* Z21,
//
// which takes about twice the arithmetic of the factor.
func (a *Analysis) Inverse(f *Factor) []float64 {
	dst := make([]float64, len(a.index))
	fronts := make([][]float64, len(a.nodes)) // Z of a node's rows, until its children are done
	for i := len(a.nodes) - 1; i >= 0; i-- {
		s := &a.nodes[i]
		m, n, stride := a.shape(i)
		z := make([]float64, n*n)
		if s.parent >= 0 {
			above, width := fronts[s.parent], len(a.nodes[s.parent].rows)
			for r, p := range s.to {
				from, row := above[int(p)*width:], z[(m+r)*n+m:]
				for c, q := range s.to {
					row[c] = from[q]
				}
			}
			if a.nodes[s.parent].children[0] == int32(i) {
				fronts[s.parent] = nil
			}
		}
		inverseFront(z, f.segments[0].value[s.at:], n, m, stride)
		if len(s.children) > 0 {
			fronts[i] = z
		}
		for _, e := range s.entries {
			dst[e.from] = z[int(e.to)%stride*n+int(e.to)/stride]
		}
	}
	a.mirror(dst)
	return dst
}

// inverseFront completes Z, of n rows, from that of the last n-m of them and the node's columns of L.
func inverseFront(z, columns []float64, n, m, stride int) {
	l, own := make([]float64, n*m), make([]float64, m*m)
	for k := range m {
		own[k*m+k] = 1
		for r := k; r < n; r++ {
			l[r*m+k] = columns[k*stride+r]
		}
	}
	general := func(x []float64, rows, cols, stride int) blas64.General {
		return blas64.General{Rows: rows, Cols: cols, Stride: stride, Data: x}
	}
	triangle := blas64.Triangular{Uplo: blas.Lower, Diag: blas.NonUnit, N: m, Stride: m, Data: l}
	inverse, z11 := general(own, m, m, m), general(z, m, m, n)
	blas64.Trsm(blas.Left, blas.NoTrans, 1, triangle, inverse)
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, inverse, inverse, 0, z11)
	if n == m {
		return
	}
	y, z21, z22 := general(l[m*m:], n-m, m, m), general(z[m*n:], n-m, m, n), general(z[m*n+m:], n-m, n-m, n)
	blas64.Trsm(blas.Right, blas.NoTrans, 1, triangle, y)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, -1, z22, y, 0, z21)
	blas64.Gemm(blas.Trans, blas.NoTrans, -1, y, z21, 1, z11)
	for r := m; r < n; r++ {
		for k := range m {
			z[k*n+r] = z[r*n+k]
		}
	}
}

// mirror copies the entries whose row comes after their column in the order of elimination to those on
// the other side.
func (a *Analysis) mirror(dst []float64) {
	for col, here := range a.place {
		for u := a.ptr[col]; u < a.ptr[col+1]; u++ {
			row := a.index[u]
			if a.place[row] <= here {
				continue
			}
			for v := a.ptr[row]; v < a.ptr[row+1]; v++ {
				if int(a.index[v]) == col {
					dst[v] = dst[u]
				}
			}
		}
	}
}

// normalColumns is the number of columns that a processor writes at a time.
const normalColumns = 1 << 14

// Normal returns the columns of M* diag(weight) M, for a sparse M whose row i has value[u] in column
// index[u] for ptr[i] <= u < ptr[i+1], n columns, each with its diagonal entry first. Rows of weight 0
// have their places too.
func Normal(n int, ptr, index []int, value, weight []float64) (columns []int64, rows []int32, entries []float64) {
	reads := make([]int32, n+1) // of each column, where the rows that read it begin
	for _, j := range index {
		reads[j+1]++
	}
	for j := range n {
		reads[j+1] += reads[j]
	}
	by, next := make([]int32, len(index)), append([]int32(nil), reads[:n]...)
	at := make([]int32, len(index)) // of each entry its row
	for i := range len(ptr) - 1 {
		for u := ptr[i]; u < ptr[i+1]; u++ {
			at[u] = int32(i)
			by[next[index[u]]] = int32(u)
			next[index[u]]++
		}
	}
	// The places first: a slice that grows takes twice as much memory.
	columns = make([]int64, n+1)
	fresh := func() []int64 { return make([]int64, n) }
	some := func(f func(lo, hi int, seen []int64)) {
		_ = parallel.Each(parallel.Parts(n, normalColumns), fresh, func(i int, seen []int64) error {
			f(i*normalColumns, min((i+1)*normalColumns, n), seen)
			return nil
		})
	}
	some(func(lo, hi int, seen []int64) { // of a row: 1 more than the last column that it was in
		for j := lo; j < hi; j++ {
			mark := int64(j) + 1
			seen[j], columns[j+1] = mark, 1
			for _, u := range by[reads[j]:reads[j+1]] {
				for _, c := range index[ptr[at[u]]:ptr[at[u]+1]] {
					if seen[c] != mark {
						seen[c] = mark
						columns[j+1]++
					}
				}
			}
		}
	})
	for j := range n {
		columns[j+1] += columns[j]
	}
	rows, entries = make([]int32, columns[n]), make([]float64, columns[n])
	some(func(lo, hi int, seen []int64) { // of a row, where its entry of the column is, plus 1
		for j := lo; j < hi; j++ {
			from := columns[j]
			to := from + 1
			rows[from], seen[j] = int32(j), to
			for _, u := range by[reads[j]:reads[j+1]] {
				i := at[u]
				w := weight[i] * value[u]
				for v := ptr[i]; v < ptr[i+1]; v++ {
					c := index[v]
					if seen[c] <= from || seen[c] > to {
						rows[to] = int32(c)
						to++
						seen[c] = to
					}
					entries[seen[c]-1] += w * value[v]
				}
			}
		}
	})
	return columns, rows, entries
}

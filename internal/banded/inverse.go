package banded

// Inverse is the band of Z = (M*M)^{-1}, whose other entries follow from it: Z is that of a factor with w diagonals.
type Inverse struct {
	t *Triangle
	z []float64 // Z_{j,j+k} at j (w+1) + k
}

// Inverse computes the entries of Z in the band of R, from the last row to the first, in about 2 w^2 operations a row
// (Takahashi, Fagan and Chin 1973; for smoothing splines Hutchinson and de Hoog 1985): R Z = R^{-*} is lower
// triangular, so that for j > i
//
//	Z_ij = -sum_k R_ik Z_kj/R_ii,    Z_ii = (1/R_ii - sum_k R_ik Z_ki)/R_ii,    i < k <= i + w.
func (t *Triangle) Inverse() *Inverse {
	w := t.w
	v := &Inverse{t, make([]float64, len(t.r))}
	for i := t.n - 1; i >= 0; i-- {
		row, to := t.r[i*(w+1):][:w+1], v.z[i*(w+1):][:w+1]
		inverse := 1 / row[0]
		last := min(w, t.n-1-i)
		for k := 1; k <= last; k++ {
			sum := 0.0
			for l := 1; l < k; l++ {
				sum += row[l] * v.z[(i+l)*(w+1)+k-l]
			}
			for l, z := range v.z[(i+k)*(w+1):][:last-k+1] {
				sum += row[k+l] * z
			}
			to[k] = -sum * inverse
		}
		sum := inverse
		for k := 1; k <= last; k++ {
			sum -= row[k] * to[k]
		}
		to[0] = sum * inverse
	}
	return v
}

// At is Z_ij for columns that a row of M reads.
func (v *Inverse) At(i, j int) float64 {
	return v.z[min(i, j)*(v.t.w+1)+max(i-j, j-i)]
}

// Frobenius2 is sum_ij g_i g_j Z_ij^2 over all entries, g >= 0: with G = diag(g), ||G^{1/2} Z G^{1/2}||_F^2. Beyond
// the band, column j of Z goes on from row to row by the recurrence of [Triangle.Inverse], so that the sum over j of
// the squares is a quadratic form in R's row, whose matrix
//
//	W_i = sum over j > i + w of g_j z_j z_j*,    z_j = (Z_{i+1,j}, ..., Z_{i+w,j}),
//
// goes on from row to row too: in about 3 w^2 operations a row, a sum of squares that loses no digits.
func (v *Inverse) Frobenius2(g []float64) float64 {
	t, w := v.t, v.t.w
	square, next, along := make([]float64, w*w), make([]float64, w*w), make([]float64, w)
	total := 0.0
	for i := t.n - 1; i >= 0; i-- {
		row, z := t.r[i*(w+1):][:w+1], v.z[i*(w+1):][:w+1]
		inverse, beyond := 1/row[0], 0.0
		for a := range w {
			sum := 0.0
			for b, s := range square[a*w:][:w] {
				sum += s * row[b+1]
			}
			along[a] = -sum * inverse
			beyond -= along[a] * row[a+1] * inverse
		}
		off := beyond
		for k := 1; k <= min(w, t.n-1-i); k++ {
			off += g[i+k] * z[k] * z[k]
		}
		total += g[i] * (g[i]*z[0]*z[0] + 2*off)
		if w == 0 {
			continue
		}
		next[0] = beyond
		for a := 1; a < w; a++ {
			next[a], next[a*w] = along[a-1], along[a-1]
			copy(next[a*w+1:(a+1)*w], square[(a-1)*w:])
		}
		if j := i + w; j < t.n {
			for a := range w {
				za := g[j] * v.z[(i+a)*(w+1)+w-a]
				for b := range w {
					next[a*w+b] += za * v.z[(i+b)*(w+1)+w-b]
				}
			}
		}
		square, next = next, square
	}
	return total
}

package clustered

import (
	"cmp"
	"math"
	"slices"
)

// The margins of this file are lower bounds of the distance from v to another model. A model is
// fixed by strict inequalities between linear functions of v: as long as they hold, the result that
// has them is the proximal point, which is unique. A function <a, v> changes by at most ||a|| times
// the length of a perturbation, so that the distance at which the inequality <a, v> > c may fail is
// (<a, v> - c)/||a||.

// within is the norm of 1_S - (k/m) 1_C for k of the m elements of C: the norm of the sum over S of
// the deviations from the mean over C.
func within(k, m int) float64 {
	return math.Sqrt(float64(k) * float64(m-k) / float64(m))
}

// between is the norm of the difference of the means over disjoint sets of m and n elements.
func between(m, n int) float64 { return math.Sqrt(1/float64(m) + 1/float64(n)) }

// variationMargin is the margin of the pieces of a total variation prox x of v, which end at ends,
// for the threshold tau. With the dual variable w_k = sum_{i <= k} (v_i - x_i) they are fixed by
//
//	the signs of the steps between pieces, which are differences of means up to constants, and
//	|w_k| < tau within pieces, sums of deviations from the mean of the piece up to a constant.
func variationMargin(v, x []float64, ends []int, tau float64) float64 {
	margin, start, dual := math.Inf(1), 0, 0.0
	for p, end := range ends {
		m := end - start
		for k := start; k < end-1; k++ {
			dual += v[k] - x[k]
			margin = min(margin, (tau-math.Abs(dual))/within(k-start+1, m))
		}
		if p+1 < len(ends) {
			step := x[end] - x[start]
			margin = min(margin, math.Abs(step)/between(m, ends[p+1]-end))
			dual = math.Copysign(tau, -step)
		}
		start = end
	}
	return max(margin, 0)
}

// sortedMargin is the margin of the clusters of the prox of the sorted l1 norm at v, with the
// weights t lambda. ends has the ends of the clusters in order, which lists the coordinates that
// are not 0, and mean their values. With the sizes |v| in decreasing order the clusters are fixed
// by
//
//	the order of the values, which are means over clusters up to constants, the last one and the
//	sizes being positive, and
//	the k largest sizes of a cluster adding up to less than k times its value plus its first k
//	weights, and without the former term for the coordinates that are 0.
//
// A cluster of one coordinate has no sign to lose if its weight is 0, and may trade places with
// another such cluster of the same weight.
func sortedMargin(v, lambda []float64, t float64, order, ends []int, mean []float64) float64 {
	margin, start := math.Inf(1), 0
	size := func(j int) float64 { return math.Abs(v[j]) }
	for b, end := range ends {
		m := end - start
		free := m == 1 && lambda[start] == 0
		sum := 0.0
		for k, j := range order[start:end] {
			sum += size(j) - mean[b] - t*lambda[start+k]
			if k+1 < m {
				margin = min(margin, -sum/within(k+1, m))
			}
			if !free {
				margin = min(margin, size(j))
			}
		}
		if b+1 < len(ends) {
			next := ends[b+1] - end
			if m > 1 || next > 1 || lambda[start] != lambda[end] {
				margin = min(margin, (mean[b]-mean[b+1])/between(m, next))
			}
		} else if !free {
			margin = min(margin, mean[b]*math.Sqrt(float64(m)))
		}
		start = end
	}
	out := make([]bool, len(v))
	for _, j := range order[:start] {
		out[j] = true
	}
	var zero []float64
	for j := range v {
		if !out[j] {
			zero = append(zero, size(j))
		}
	}
	slices.SortFunc(zero, func(a, b float64) int { return cmp.Compare(b, a) })
	slack := 0.0
	for k, a := range zero {
		slack += t*lambda[start+k] - a
		margin = min(margin, slack/math.Sqrt(float64(k+1)))
	}
	return max(margin, 0)
}

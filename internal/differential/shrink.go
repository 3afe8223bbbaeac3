package differential

import (
	"math"
	"slices"
	"time"

	"surepipe/array"
)

// Shrink searches for a smaller case that is also wrong: with fewer rows, fewer coordinates,
// numbers of fewer digits and the plainest options. It stops when its time is up.
func Shrink(dev array.Device, c *Case, budget time.Duration) *Case {
	end := time.Now().Add(budget)
	wrong := func(next *Case) bool {
		return next != nil && time.Now().Before(end) && Run(dev, next).Verdict == Wrong
	}
	best := c
	for changed := true; changed && time.Now().Before(end); {
		changed = false
		try := func(next *Case) {
			if wrong(next) {
				best, changed = next, true
			}
		}
		if best.Estimator != "" {
			next := best.clone()
			next.Estimator, next.Queries = "", 0
			try(next)
		}
		for i := len(best.Squares) - 1; i >= 0 && best.Name == ""; i-- {
			try(best.withoutSquare(i))
		}
		for i := len(best.Y) - 1; i >= 0; i-- {
			if i < len(best.Y) {
				try(best.withoutRow(i))
			}
		}
		for j := best.Op.Cols - 1; j >= 0; j-- {
			if j < best.Op.Cols {
				try(best.withoutColumn(j).narrow(j))
			}
		}
		for i := 0; best.K != nil && i < best.K.Rows; i++ {
			try(best.withoutPenalty(i))
		}
		for _, digits := range []int{1, 2, 3} {
			try(best.rounded(digits))
		}
	}
	return best
}

func (c *Case) clone() *Case {
	next := *c
	next.Squares = slices.Clone(c.Squares)
	next.Y = slices.Clone(c.Y)
	next.Op = c.Op.clone()
	next.Reg = c.Reg.clone()
	if c.K != nil {
		k := c.K.clone()
		next.K = &k
	}
	return &next
}

func (o Op) clone() Op {
	o.Data, o.Index, o.Parts = slices.Clone(o.Data), slices.Clone(o.Index), slices.Clone(o.Parts)
	for i := range o.Parts {
		o.Parts[i] = o.Parts[i].clone()
	}
	return o
}

func (r Reg) clone() Reg {
	r.Weights, r.Lo, r.Hi = slices.Clone(r.Weights), slices.Clone(r.Lo), slices.Clone(r.Hi)
	r.Groups = slices.Clone(r.Groups)
	for i := range r.Groups {
		r.Groups[i] = slices.Clone(r.Groups[i])
	}
	r.Blocks = slices.Clone(r.Blocks)
	for i := range r.Blocks {
		r.Blocks[i] = r.Blocks[i].clone()
	}
	return r
}

// numbersOf is the matrix of an operator that is a matrix or a centered one; nil for others.
func (c *Case) numbersOf() *Op {
	o := &c.Op
	if o.Kind == "centered" {
		o = &o.Parts[0]
	}
	if o.Kind != "dense" && o.Kind != "csr" {
		return nil
	}
	return o
}

func (c *Case) withoutRow(i int) *Case {
	next := c.clone()
	if len(next.Y) < 2 || next.Intercept && len(next.Y) < 3 {
		return nil
	}
	o := next.numbersOf()
	switch {
	case o != nil:
		o.Data = slices.Delete(o.Data, i*o.Cols, (i+1)*o.Cols)
		o.Rows--
		next.Op.Rows = o.Rows
	case next.Op.Kind == "selection":
		next.Op.Index = slices.Delete(next.Op.Index, i, i+1)
		next.Op.Rows--
	default:
		return nil
	}
	next.Y = slices.Delete(next.Y, i, i+1)
	return next
}

func (c *Case) withoutColumn(j int) *Case {
	next := c.clone()
	o := next.numbersOf()
	switch {
	case o == nil || o.Cols < 2:
		return nil
	case next.K != nil:
		next.K.dropColumn(j)
	case !next.Reg.drop(j):
		return nil
	}
	o.dropColumn(j)
	next.Op.Cols = o.Cols
	return next
}

// dropColumn removes column j of a matrix.
func (o *Op) dropColumn(j int) {
	data := o.Data
	o.Data = nil
	for i, v := range data {
		if i%o.Cols != j {
			o.Data = append(o.Data, v)
		}
	}
	o.Cols--
}

// withoutPenalty has no row i of K.
func (c *Case) withoutPenalty(i int) *Case {
	next := c.clone()
	k := next.K
	if k.Rows < 2 || !next.Reg.drop(i) {
		return nil
	}
	k.Data = slices.Delete(k.Data, i*k.Cols, (i+1)*k.Cols)
	k.Rows--
	return next
}

// drop removes coordinate j; false where that is not possible.
func (r *Reg) drop(j int) bool {
	if r.Kind == "nuclear" || r.N < 2 {
		return false
	}
	if r.Kind == "separable" {
		for i, b := range r.Blocks {
			if j >= b.N {
				j -= b.N
				continue
			}
			if b.N == 1 {
				r.Blocks = slices.Delete(r.Blocks, i, i+1)
			} else if !r.Blocks[i].drop(j) {
				return false
			}
			r.N--
			return true
		}
	}
	r.N--
	if r.Kind == "slope" {
		r.Weights = r.Weights[:r.N]
		return true
	}
	if r.Kind == "weightedl1" {
		r.Weights = slices.Delete(r.Weights, j, j+1)
	}
	if r.Lo != nil {
		r.Lo, r.Hi = slices.Delete(r.Lo, j, j+1), slices.Delete(r.Hi, j, j+1)
	}
	var groups [][]int
	var weights []float64
	for g, members := range r.Groups {
		var kept []int
		for _, k := range members {
			if k > j {
				k--
			} else if k == j {
				continue
			}
			kept = append(kept, k)
		}
		if len(kept) > 0 {
			groups = append(groups, kept)
			if r.Weights != nil {
				weights = append(weights, r.Weights[g])
			}
		}
	}
	if r.Groups != nil {
		r.Groups, r.Weights = groups, weights
		return len(groups) > 0
	}
	return true
}

// rounded rounds every number to the given digits.
func (c *Case) rounded(digits int) *Case {
	next := c.clone()
	if o := next.numbersOf(); o != nil {
		roundTo(o.Data, digits)
	}
	roundTo(next.Y, digits)
	next.roundSquares(digits)
	lambda := []float64{next.Reg.Lambda, next.Reg.Lambda2, next.Reg.Radius, next.Sigma2}
	roundTo(lambda, digits)
	next.Reg.Lambda, next.Reg.Lambda2, next.Reg.Radius, next.Sigma2 = lambda[0], lambda[1], lambda[2], lambda[3]
	if next.String() == c.String() {
		return nil
	}
	return next
}

func roundTo(x []float64, digits int) {
	for i, v := range x {
		if v == 0 || math.Abs(v) == math.MaxFloat64 {
			continue
		}
		unit := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-float64(digits-1))
		if r := math.Round(v/unit) * unit; !math.IsInf(r, 0) && !math.IsNaN(r) {
			x[i] = r
		}
	}
}

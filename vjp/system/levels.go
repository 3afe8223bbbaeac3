package system

import (
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/space"
)

// level is a part of the tape in which the reverse sweep reaches few coordinates. A diagonal prox
// derivative J_k is zero outside its support S_k, and a method that looks back l steps passes the
// adjoint of iteration k only to J_{k-1}, ..., J_{k-l}. So from iteration k up, every coordinate
// outside
//
//	U(k) = S_{k-l} ∪ S_{k-l+1} ∪ ... ∪ S_last
//
// is multiplied by zero before it is used, and A may be replaced by its columns in U(k), with the
// same result up to the order of sums.
type level struct {
	from int         // the first iteration that the level serves
	n    int         // |U(from)|
	idx  array.Index // U(from)
	on   space.Space // the coordinates of U(from)
	op   linops.Restricted
}

// minActive is the size of p below which full products are cheap enough.
const minActive = 64

// newLevels returns the levels of a tape, the smallest last: U(k) grows as the sweep goes back,
// because supports shrink as the iterations converge, and each level is at most half the one before
// it, the first at most half of the whole. That bounds their columns, taken together, by those of
// A. There are none where the operator or a derivative lacks the structure or the columns do not
// fit in room bytes.
func newLevels(p solve.Problem, records []prox.Derivative, lookback int, room int64) []level {
	d, dim := p.A.Dims()
	if lookback < 0 || dim < minActive || linops.StructureOf(p.A).On == nil {
		return nil
	}
	for _, j := range records {
		if j.Diagonal().IsZero() {
			return nil
		}
	}
	// reach[i] is the largest k with i in U(k), -1 if there is none; count[k] is
	// |U(k)|.
	last := len(records) - 1
	reach := make([]int, dim)
	for i, k := range lastUse(p.Device, records, dim) {
		if reach[i] = -1; k >= 0 {
			reach[i] = min(k+lookback, last)
		}
	}
	count := make([]int, last+2)
	for _, k := range reach {
		if k >= 0 {
			count[k]++
		}
	}
	for k := last - 1; k >= 0; k-- {
		count[k] += count[k+1]
	}
	var levels []level
	done := false
	defer func() {
		for i := range levels {
			if !done { // A has panicked
				levels[i].release()
			}
		}
	}()
	from := 0
	for limit := dim / 2; limit > 0; limit /= 2 {
		for from <= last && count[from] > limit {
			from++
		}
		if from > last {
			break
		}
		if n := len(levels); n > 0 && levels[n-1].from == from {
			continue
		}
		size := 8 * int64(d) * int64(count[from])
		if size > room {
			continue
		}
		room -= size
		set := make([]int, 0, count[from])
		for i, k := range reach {
			if k >= from {
				set = append(set, i)
			}
		}
		l := level{from: from, n: len(set), on: space.Coordinates(p.Device, dim, set)}
		levels = append(levels, l)
		op := linops.StructureOf(p.A).On(p.Device, l.on)
		if op == nil {
			l.on.Release()
			levels = levels[:len(levels)-1]
			break
		}
		l.op, l.idx = op, p.Device.NewIndex(set)
		levels[len(levels)-1] = l
	}
	done = true
	return levels
}

// lastUse returns, for every coordinate, the last of the diagonal records that is not 0
// there, -1 where all are. It is found on the device: a running maximum of k + 1 over the
// supports.
func lastUse(dev array.Device, records []prox.Derivative, dim int) []int {
	use, support, top := dev.Alloc(1, dim), dev.Alloc(1, dim), dev.Alloc(1, dim)
	defer array.Free(use, support, top)
	dev.Fill(use, 0)
	dev.Fill(top, float64(len(records)))
	for k, j := range records {
		dev.SoftMask(support, j.Diagonal(), array.Batch{}, math.SmallestNonzeroFloat64)
		dev.Lin(support, float64(k+1), support, 0, array.Batch{})
		dev.Clamp(use, support, use, top)
	}
	last := make([]int, dim)
	for i, k := range use.ToHost() {
		last[i] = len(records) - 1 // also where a fault left no number
		if k <= float64(len(records)) {
			last[i] = int(k) - 1
		}
	}
	return last
}

func (l *level) release() {
	if l.op != nil {
		l.op.Release()
		l.idx.Free()
	}
	l.on.Release()
}

package linops

import (
	"fmt"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/linops/internal/product"
	"surepipe/space"
)

// On returns A E on dev for a space T = E R^n. With native true it is A's own implementation
// ([Structure].On), or A itself on all of R^p; else it is E followed by A. Both A and the space
// must outlive the result. It panics where T is not a space of vectors that A acts on.
func On(dev array.Device, a Operator, t space.Space) (op Restricted, native bool) {
	k := know(a)
	if op := restrict(dev, &k, t); op != nil {
		return op, true
	}
	if k.s.Identity {
		return &combined{Operator: newEmbedding(t)}, false
	}
	if c, ok := a.(*columns); ok && t.Form().Kind == space.Subset {
		return c.at(dev, t, &combined{Operator: Compose(c.a.Operator, newEmbedding(t))}), false
	}
	return &combined{Operator: Compose(a, newEmbedding(t))}, false
}

// restrict is A's own implementation of A E; nil where A has none.
func restrict(dev array.Device, a *known, t space.Space) Restricted {
	if _, p := a.Dims(); !fits(t, p) {
		d, _ := a.Dims()
		q, n := t.Dims()
		panic(fmt.Sprintf("linops: a %d x %d operator on a space of %d coordinates in R^%d", d, p, n, q))
	}
	if t.Form().Kind == space.Whole {
		return &combined{Operator: a.Operator}
	}
	if a.s.On == nil {
		return nil
	}
	return a.s.On(dev, t)
}

func fits(t space.Space, p int) bool {
	q, _ := t.Dims()
	return q == p
}

func canRestrict(a *known) bool { return a.s.On != nil }

// embedding is E, R^n -> R^p.
type embedding struct{ base }

func newEmbedding(t space.Space) *embedding {
	p, n := t.Dims()
	e := &embedding{base{name: "embedding", d: p, p: n, run: func(w product.Direction, dst, x array.Batch) {
		switch {
		case n == 0 && w == product.Forward:
			dst.Device().Fill(dst, 0)
		case n == 0:
		case w == product.Forward:
			t.Embed(dst, x)
		default:
			t.Coordinates(dst, x)
		}
	}}}
	e.structure.Columns = Number{1, t.Form().Orthonormal}
	return e
}

// combined is an operator that owns operators and spaces of which it is made.
type combined struct {
	Operator
	parts  []Restricted
	spaces []space.Space
}

// Owning returns the operator a, with its structure, which owns operators of which it is made: Bytes is theirs, and
// Release releases them.
func Owning(a Operator, parts ...Restricted) Restricted { return &combined{Operator: a, parts: parts} }

func (c *combined) Structure() Structure { return StructureOf(c.Operator) }

func (c *combined) Bytes() int64 {
	bytes := int64(0)
	for _, r := range c.parts {
		bytes += r.Bytes()
	}
	for _, t := range c.spaces {
		bytes += t.Bytes()
	}
	return bytes
}

func (c *combined) Release() {
	for _, r := range c.parts {
		r.Release()
	}
	for _, t := range c.spaces {
		t.Release()
	}
}

// joined is an operator made of a restricted one, which it owns; nil for nil.
func joined(r Restricted, join func(b Operator) Operator) Restricted {
	if r == nil {
		return nil
	}
	return Owning(join(r), r)
}

// restrictEach restricts every operator to its share of a space and joins the results; the joined operator
// owns the spaces in own. It returns nil where an operator has no implementation of its own for its share. On
// the set of all coordinates, which a product of spaces may contain, an operator serves itself.
func restrictEach(dev array.Device, parts []known, share func(i int) space.Space, own []space.Space,
	join func(...Operator) Operator) Restricted {
	c, made := &combined{spaces: own}, false
	defer func() {
		if !made { // also where an operator panics
			c.Release()
		}
	}()
	ops := make([]Operator, len(parts))
	for i := range parts {
		t := share(i)
		r := restrict(dev, &parts[i], t)
		if _, p := parts[i].Dims(); r == nil && t.Form().Kind == space.Subset && len(t.Form().Set) == p {
			r = &combined{Operator: parts[i].Operator}
		}
		if r == nil {
			return nil
		}
		c.parts = append(c.parts, r)
		ops[i] = r
	}
	c.Operator, made = join(ops...), true
	return c
}

func (a *stack) on() func(dev array.Device, t space.Space) Restricted {
	if !every(a.parts, canRestrict) {
		return nil
	}
	if a.cols == nil {
		return func(dev array.Device, t space.Space) Restricted {
			return restrictEach(dev, a.parts, func(int) space.Space { return t }, nil, VStack)
		}
	}
	join := HStack
	if a.rows != nil {
		join = BlockDiag
	}
	return func(dev array.Device, t space.Space) Restricted {
		shares, own, ok := split(dev, t, a.cols)
		if !ok {
			return nil
		}
		if a.rows == nil {
			if op := lowRankBesideSparse(dev, a.parts, shares); op != nil {
				release(own)
				return op
			}
		}
		return restrictEach(dev, a.parts, func(i int) space.Space { return shares[i] }, own, join)
	}
}

func release(spaces []space.Space) {
	for _, t := range spaces {
		t.Release()
	}
}

// split divides a space into factors T_i on the coordinates ends[i] to ends[i+1]-1. The caller releases the
// factors in own, which split has made. ok is false where the space is no such product.
func split(dev array.Device, t space.Space, ends []int) (shares, own []space.Space, ok bool) {
	switch f := t.Form(); f.Kind {
	case space.Whole:
		for i := range len(ends) - 1 {
			shares = append(shares, space.All(ends[i+1]-ends[i]))
		}
		return shares, nil, true
	case space.Subset:
		next := 0
		for i := range len(ends) - 1 {
			var set []int
			for ; next < len(f.Set) && f.Set[next] < ends[i+1]; next++ {
				set = append(set, f.Set[next]-ends[i])
			}
			shares = append(shares, space.Coordinates(dev, ends[i+1]-ends[i], set))
		}
		return shares, shares, true
	case space.Cluster:
		return splitClusters(dev, f.Average(), ends)
	case space.Product:
		return splitProduct(dev, f.Parts, ends)
	}
	return nil, nil, false
}

func positive(list []int, sign []float64) bool {
	return !slices.ContainsFunc(list, func(j int) bool { return sign[j] < 0 })
}

// splitClusters is split for clusters, each of which lies between two ends, in the order of the blocks, and has
// coordinates of equal weight.
func splitClusters(dev array.Device, average space.Rows, ends []int) (shares, own []space.Space, ok bool) {
	next, n := 0, len(average.Indptr)-1
	for i := range len(ends) - 1 {
		lo, hi := ends[i], ends[i+1]
		indptr, indices, sign := []int{0}, []int(nil), make([]float64, hi-lo)
		for ; next < n; next++ {
			from, to := average.Indptr[next], average.Indptr[next+1]
			if to > from && average.Indices[from] >= hi {
				break
			}
			if to == from {
				release(shares)
				return nil, nil, false
			}
			weight := 1 / math.Sqrt(float64(to-from))
			for u := from; u < to; u++ {
				j, v := average.Indices[u], average.Values[u]
				if j < lo || j >= hi || math.Abs(math.Abs(v)-weight) > 1e-15 {
					release(shares)
					return nil, nil, false
				}
				indices = append(indices, j-lo)
				sign[j-lo] = math.Copysign(1, v)
			}
			indptr = append(indptr, len(indices))
		}
		if positive(indices, sign) && len(indices) == len(indptr)-1 && slices.IsSorted(indices) {
			shares = append(shares, space.Coordinates(dev, hi-lo, indices))
		} else {
			shares = append(shares, space.Clusters(dev, hi-lo, indptr, indices, sign))
		}
	}
	if next < n {
		release(shares)
		return nil, nil, false
	}
	return shares, shares, true
}

// splitProduct is split for a product: it divides the factors that cross an end, and joins the factors that lie
// between two ends.
func splitProduct(dev array.Device, parts []space.Space, ends []int) (shares, own []space.Space, ok bool) {
	var pieces []space.Space
	at := 0
	for _, part := range parts {
		p, _ := part.Dims()
		inner := []int{0}
		for _, end := range ends {
			if end > at && end < at+p && end-at > inner[len(inner)-1] {
				inner = append(inner, end-at)
			}
		}
		if at += p; len(inner) == 1 {
			pieces = append(pieces, part)
			continue
		}
		some, made, ok := split(dev, part, append(inner, p))
		if !ok {
			release(own)
			return nil, nil, false
		}
		pieces, own = append(pieces, some...), append(own, made...)
	}
	// Every piece lies between two ends. One without coordinates joins those before it.
	for i := range len(ends) - 1 {
		var block []space.Space
		for left := ends[i+1] - ends[i]; len(pieces) > 0; pieces = pieces[1:] {
			p, _ := pieces[0].Dims()
			if p > left {
				break
			}
			left -= p
			block = append(block, pieces[0])
		}
		switch len(block) {
		case 0:
			shares = append(shares, space.All(0))
		case 1:
			shares = append(shares, block[0])
		default:
			shares = append(shares, space.ProductOf(block...))
		}
	}
	return shares, own, true
}

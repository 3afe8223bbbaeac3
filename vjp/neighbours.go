package vjp

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/prox"
)

// atTheThreshold is the share by which the argument of the prox is moved towards 0 before it is
// differentiated: a value that exceeds its threshold by a rounding error only counts as below it.
const atTheThreshold = 0x1p-42

// near is the distance from the argument, in units of its error, at which the prox is
// differentiated again, to check whether the choice of the tangent space was close. leastNear is a
// lower bound of that error, as a share of the argument.
const (
	near      = 4
	leastNear = 0x1p-36
	// leastShift is the share by which an argument is moved at least, and leastTop stands for the size
	// of one that is 0.
	leastShift = 0x1p-46
	leastTop   = 0x1p-400
)

// differs is the least difference between the images of two different derivatives of a few normal numbers.
const (
	differs = 1e-3
	unlike  = 2 // probes
)

// vicinity are the points near an argument v of the proximal operator of r, within an error.
type vicinity struct {
	r     prox.Prox
	j     prox.Derivative // at v
	v     array.Batch
	eta   float64
	shift float64 // how far coordinates of v move
	owner []int   // the group of each, where r is a sum of norms of groups and a derivative costs little; else nil
	off   float64 // the error of coordinates of v, where it may be that other models have the same space; else 0
	// complete says that the derivatives that the error of v allows are all known.
	complete bool
	at       func(ctx context.Context, v array.Batch) (*linearization, error)
}

// wide are the margins that are tried where that of the model is smaller: rows of K may be left out
// that depend on others, and the space is the same.
var wide = []float64{100, 10}

// widen widens the range of traces of l by those of the derivatives near v.
func (n *vicinity) widen(ctx context.Context, l *linearization) error {
	many := n.j.Diagonal().IsZero() && n.owner == nil && n.v.N() > maxDense
	if many || !l.known.Known || prox.StructureOf(n.r).Quadratic.Known {
		return nil
	}
	for _, margin := range wide {
		if !n.complete || n.off == 0 || l.known.SpaceMargin >= margin {
			break
		}
		same := func(t traces) bool { return t.complete && t.same(l.known.Trace) }
		seen, err := n.near(ctx, margin*n.off, same)
		if err != nil {
			return err
		}
		if same(seen) {
			l.known.SpaceMargin = margin
			break
		}
	}
	if n.alone(l, n.shift) {
		l.known.Neighbours = n.complete
		return nil
	}
	seen, err := n.near(ctx, n.shift, nil)
	l.known.Low, l.known.High = math.Min(l.known.Low, seen.low), math.Max(l.known.High, seen.high)
	l.known.Margin = math.Min(l.known.Margin, seen.margin)
	l.known.Neighbours = n.complete && seen.complete
	return err
}

// alone reports that no kink of a sum over coordinates or groups is so near that a shift reaches it: derivatives are
// the same.
func (n *vicinity) alone(l *linearization, shift float64) bool {
	known, m := prox.StructureOf(n.r), l.model
	if m == nil || m.Margin == nil {
		return false
	}
	if n.owner != nil {
		shift *= math.Sqrt(slices.Max(sizes(n.owner)))
	} else if known.Sparse == nil || known.Groups != nil || n.j.Diagonal().IsZero() {
		return false
	}
	return m.Margin(n.v) > 2*math.Max(shift, leastShift*math.Max(n.v.MaxAbs(), leastTop))
}

// traces are those of derivatives with other images than those at hand.
type traces struct {
	low, high, margin float64
	complete          bool // all are known
}

// same reports that there are none but this one, up to rounding errors.
func (t traces) same(trace float64) bool {
	const rounding = 1e-9
	return t.low >= trace-rounding*(1+trace) && t.high <= trace+rounding*(1+trace)
}

// near are the traces at v scaled up and down, and shifted up and down and at random; where r is a sum
// over coordinates, or of norms of groups, at two arguments where each is as free, and as tied, as it gets. They end
// with the first of which while, unless it is nil, does not hold.
func (n *vicinity) near(ctx context.Context, shift float64, while func(traces) bool) (traces, error) {
	seen := traces{math.Inf(1), math.Inf(-1), math.Inf(1), true}
	dev := n.v.Device()
	top := n.v.MaxAbs()
	if !(top > 0) {
		top = leastTop
	}
	shift = math.Max(shift, leastShift*top)
	probes, here := dev.Alloc(unlike, n.v.N()), dev.Alloc(unlike, n.v.N())
	defer array.Free(probes, here)
	rng := rand.New(rand.NewPCG(0x6e656172, uint64(n.v.N())))
	dev.Upload(probes, normals(rng, unlike*n.v.N()))
	n.j.Apply(here, probes)
	diagonal := !n.j.Diagonal().IsZero()
	known := prox.StructureOf(n.r)
	var points []array.Batch
	defer func() {
		array.Free(points...)
	}()
	if n.owner != nil {
		points = []array.Batch{n.longer(shift), n.longer(-shift)}
	} else if points = n.shifted(shift); diagonal {
		if err := n.extremes(points[0], points[1]); err != nil {
			return seen, err
		}
	}
	if n.owner == nil && (!diagonal || known.Sparse == nil || known.Groups != nil) {
		points = append(points, n.around(rng, shift, top)...)
	}
	for _, there := range points {
		if err := n.include(ctx, &seen, here, there, probes); err != nil || while != nil && !while(seen) {
			return seen, err
		}
	}
	return seen, nil
}

func (n *vicinity) shifted(shift float64) []array.Batch {
	along := n.v.Device().Alloc(1, n.v.N())
	defer along.Free()
	along.Device().Fill(along, 1)
	return []array.Batch{n.moved(1, shift, along), n.moved(1, -shift, along)}
}

func (n *vicinity) moved(scale, by float64, along array.Batch) array.Batch {
	v := n.v.Device().Alloc(1, n.v.N())
	v.Device().Lin(v, scale, n.v, by, along)
	return v
}

// around are v scaled up and down, and shifted at random: ties of some regularizers are between coordinates.
func (n *vicinity) around(rng *rand.Rand, shift, top float64) []array.Batch {
	points := []array.Batch{n.moved(1+shift/top, 0, array.Batch{}), n.moved(math.Max(1-shift/top, 0), 0, array.Batch{})}
	along := n.v.Device().Alloc(1, n.v.N())
	defer along.Free()
	for range unlike {
		along.Device().Upload(along, normals(rng, n.v.N()))
		points = append(points, n.moved(1, shift, along), n.moved(1, -shift, along))
	}
	return points
}

// extremes exchanges the coordinates of two arguments so that at the first each is as free as at
// either of them, where the derivatives are diagonal.
func (n *vicinity) extremes(one, other array.Batch) error {
	dev := n.v.Device()
	t := dev.Alloc(1, n.v.N())
	defer t.Free()
	var v, d [2][]float64
	for i, at := range []array.Batch{one, other} {
		j, err := n.r.Linearize(t, at, n.eta)
		if err != nil {
			return err
		}
		if v[i] = at.ToHost(); !j.Diagonal().IsZero() {
			d[i] = j.Diagonal().ToHost()
		}
		j.Release()
	}
	if d[0] == nil || d[1] == nil {
		return dev.Err()
	}
	for i := range d[0] {
		if d[0][i] < d[1][i] {
			v[0][i], v[1][i] = v[1][i], v[0][i]
		}
	}
	dev.Upload(one, v[0])
	dev.Upload(other, v[1])
	return dev.Err()
}

// sizes are those of the groups.
func sizes(owner []int) []float64 {
	all := make([]float64, slices.Max(owner)+1)
	for _, g := range owner {
		all[g]++
	}
	return all
}

// groupsOf are the groups of coordinates where r is a sum of norms of these and of smooth terms; else nil.
func groupsOf(r prox.Prox) (owner []int) {
	known := prox.StructureOf(r)
	switch {
	case known.Groups != nil:
		owner, _ = known.Groups()
		return owner
	case known.Quadratic.Known:
		return lists.Upto(r.Dim())
	}
	first := 0
	for _, part := range known.Blocks {
		some := groupsOf(part)
		if len(some) == 0 {
			return nil
		}
		for _, g := range some {
			owner = append(owner, first+g)
		}
		first += slices.Max(some) + 1
	}
	return owner
}

// longer is v with groups that are longer by as much as a shift of their coordinates makes them at most.
func (n *vicinity) longer(shift float64) array.Batch {
	count, v := sizes(n.owner), n.v.ToHost()
	length := make([]float64, len(count))
	for i, g := range n.owner {
		length[g] = math.Hypot(length[g], v[i])
	}
	for i, g := range n.owner {
		if length[g] > 0 {
			v[i] *= math.Max(1+shift*math.Sqrt(count[g])/length[g], 0)
		}
	}
	return n.v.Device().Put(v, 1, len(v))
}

// include adds the trace of the derivative at the argument there to those seen, if its images of the
// probes differ from here, the images of the derivative at v.
func (n *vicinity) include(ctx context.Context, seen *traces, here, there, probes array.Batch) error {
	dev := there.Device()
	t, images := dev.Alloc(1, there.N()), dev.Alloc(unlike, there.N())
	defer array.Free(t, images)
	j, err := n.r.Linearize(t, there, n.eta)
	if err != nil {
		return err
	}
	func() {
		defer j.Release()
		j.Apply(images, probes)
	}()
	dev.Lin(images, 1, images, -1, here)
	var most [unlike]float64
	dev.MaxAbs(most[:], images)
	if slices.Max(most[:]) <= differs {
		return dev.Err()
	}
	other, err := n.at(ctx, there)
	if err != nil {
		return err
	}
	defer other.Release()
	if seen.complete = seen.complete && other.known.Known; other.known.Known {
		seen.low, seen.high = math.Min(seen.low, other.known.Low), math.Max(seen.high, other.known.High)
		seen.margin = math.Min(seen.margin, other.known.Margin)
	}
	return nil
}

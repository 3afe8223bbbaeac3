package vjp

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"surepipe/array"
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
	// leastTop stands for the size of an argument that is 0.
	leastTop = 0x1p-400
)

// differs is the least difference between the images of two different derivatives of a few normal numbers.
const (
	differs = 1e-3
	unlike  = 2 // probes
)

// vicinity are the points near an argument v of the proximal operator of r, within an error.
type vicinity struct {
	r        prox.Prox
	j        prox.Derivative // at v
	v        array.Batch
	eta, off float64
	// complete says that the derivatives that the error of v allows are all known.
	complete bool
	// at linearizes at another argument.
	at func(ctx context.Context, v array.Batch) (*implicit, error)
}

// widen widens the range of traces of l by those of the derivatives near v, where these have another tangent space: at v
// scaled up and down, and shifted by random signs; where r is a sum over coordinates some are where each coordinate is as
// free, and as tied, as it gets.
func (n *vicinity) widen(ctx context.Context, l *implicit) error {
	diagonal := !n.j.Diagonal().IsZero()
	if !l.known.Known || !diagonal && n.v.N() > maxDense || prox.StructureOf(n.r).Quadratic.Known {
		return nil
	}
	dev := n.v.Device()
	var top [1]float64
	dev.MaxAbs(top[:], n.v)
	if !(top[0] > 0) {
		top[0] = leastTop
	}
	shift := near*n.off + leastNear*top[0]
	probes, here := dev.Alloc(unlike, n.v.N()), dev.Alloc(unlike, n.v.N())
	defer probes.Free()
	defer here.Free()
	rng := rand.New(rand.NewPCG(0x6e656172, uint64(n.v.N())))
	host := make([]float64, unlike*n.v.N())
	for i := range host {
		host[i] = rng.NormFloat64()
	}
	dev.Upload(probes, host)
	n.j.Apply(here, probes)
	points := n.around(rng, shift, top[0])
	defer func() {
		for _, p := range points {
			p.Free()
		}
	}()
	if diagonal {
		if err := n.extremes(points[0], points[1]); err != nil {
			return err
		}
	}
	for _, there := range points {
		if err := n.include(ctx, l, here, there, probes); err != nil {
			return err
		}
	}
	l.known.Neighbours = n.complete
	return nil
}

// around are v shifted up and down everywhere, scaled up and down, and shifted at random: ties of some regularizers are between
// coordinates.
func (n *vicinity) around(rng *rand.Rand, shift, top float64) (points []array.Batch) {
	dev := n.v.Device()
	add := func(scale, by float64, along array.Batch) {
		v := dev.Alloc(1, n.v.N())
		dev.Lin(v, scale, n.v, by, along)
		points = append(points, v)
	}
	along, host := dev.Alloc(1, n.v.N()), make([]float64, n.v.N())
	defer along.Free()
	dev.Fill(along, 1)
	add(1, shift, along)
	add(1, -shift, along)
	add(1+shift/top, 0, array.Batch{})
	add(math.Max(1-shift/top, 0), 0, array.Batch{})
	for range unlike {
		for i := range host {
			host[i] = rng.NormFloat64()
		}
		dev.Upload(along, host)
		add(1, shift, along)
		add(1, -shift, along)
	}
	return points
}

// extremes exchanges the coordinates of two arguments so that at the first each is as free as at either of them, where r
// is a sum over coordinates there.
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

// include includes the trace of the derivative at the argument there in the range of l, if its images of the probes
// differ from here, the images of l's own derivative.
func (n *vicinity) include(ctx context.Context, l *implicit, here, there, probes array.Batch) error {
	dev := there.Device()
	t, images := dev.Alloc(1, there.N()), dev.Alloc(unlike, there.N())
	defer t.Free()
	defer images.Free()
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
	if n.complete = n.complete && other.known.Known; other.known.Known {
		l.known.Low, l.known.High = math.Min(l.known.Low, other.known.Low), math.Max(l.known.High, other.known.High)
		l.known.Margin = math.Min(l.known.Margin, other.known.Margin)
	}
	return nil
}

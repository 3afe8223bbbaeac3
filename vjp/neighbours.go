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
	// at linearizes at another argument.
	at func(ctx context.Context, v array.Batch) (*implicit, error)
}

// widen widens the range of traces of l by those of the derivatives near v, where these have another tangent space: at v
// scaled up and down, and shifted by random signs; or, where r is a sum over coordinates, where each coordinate is as
// free and as tied as it gets. complete says that these are all that the error of v allows.
func (n *vicinity) widen(ctx context.Context, l *implicit, complete bool) error {
	diagonal := !n.j.Diagonal().IsZero()
	if !l.known.Known || !diagonal && n.v.N() > maxDense || prox.StructureOf(n.r).Quadratic.Known {
		return nil
	}
	dev := n.v.Device()
	var top [1]float64
	dev.MaxAbs(top[:], n.v)
	if !(top[0] > 0) {
		return nil
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
	points, err := n.around(rng, shift, top[0], diagonal)
	defer func() {
		for _, p := range points {
			p.Free()
		}
	}()
	if err != nil {
		return err
	}
	for _, there := range points {
		if err := n.include(ctx, l, here, there, probes); err != nil {
			return err
		}
	}
	l.known.Neighbours = complete
	return nil
}

// around are the points at which the derivative is looked at.
func (n *vicinity) around(rng *rand.Rand, shift, top float64, diagonal bool) (points []array.Batch, err error) {
	dev := n.v.Device()
	at := func(scale, by float64, signs array.Batch) {
		v := dev.Alloc(1, n.v.N())
		points = append(points, v)
		dev.Lin(v, scale, n.v, by, signs)
	}
	signs := dev.Alloc(1, n.v.N())
	defer signs.Free()
	host := slices.Repeat([]float64{1}, n.v.N())
	for i := range host {
		if !diagonal && rng.Uint64()&1 == 1 {
			host[i] = -1
		}
	}
	dev.Upload(signs, host)
	at(1, shift, signs)
	at(1, -shift, signs)
	if !diagonal {
		at(1+shift/top, 0, signs)
		at(math.Max(1-shift/top, 0), 0, signs)
		return points, nil
	}
	up, down := points[0].ToHost(), points[1].ToHost()
	var d [2][]float64
	t := dev.Alloc(1, n.v.N())
	defer t.Free()
	for i, v := range points {
		j, err := n.r.Linearize(t, v, n.eta)
		if err != nil {
			return points, err
		}
		d[i] = j.Diagonal().ToHost()
		j.Release()
	}
	for i := range up {
		if d[0][i] < d[1][i] {
			up[i], down[i] = down[i], up[i]
		}
	}
	dev.Upload(points[0], up)
	dev.Upload(points[1], down)
	return points, nil
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
	if other.known.Known {
		l.known.Low, l.known.High = math.Min(l.known.Low, other.known.Low), math.Max(l.known.High, other.known.High)
		l.known.Margin = math.Min(l.known.Margin, other.known.Margin)
	}
	return nil
}

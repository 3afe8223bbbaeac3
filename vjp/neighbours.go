package vjp

import (
	"context"
	"math"
	"math/rand/v2"

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

// differs is the least difference between the images of two different derivatives, as a share of
// the probe.
const differs = 1e-3

// neighbours widens the range of traces by those of the derivatives near v, where these have
// another tangent space: at v scaled up and down, and shifted by random signs. err is the error to
// which v is known.
func (l *implicit) neighbours(ctx context.Context, at *implicit, v array.Batch, err float64) error {
	if !at.known.Known || at.j.Diagonal().IsZero() && v.N() > maxDense || prox.StructureOf(l.p.R).Quadratic.Known {
		return nil
	}
	dev := v.Device()
	var top [1]float64
	dev.MaxAbs(top[:], v)
	if !(top[0] > 0) {
		return nil
	}
	shift := near*err + leastNear*top[0]
	probe, there, here := dev.Alloc(1, v.N()), dev.Alloc(1, v.N()), dev.Alloc(1, v.N())
	defer probe.Free()
	defer there.Free()
	defer here.Free()
	rng := rand.New(rand.NewPCG(0x6e656172, uint64(v.N())))
	signs := make([]float64, v.N())
	for i := range signs {
		signs[i] = float64(1 - 2*int(rng.Uint64()&1))
	}
	dev.Upload(probe, signs)
	at.j.Apply(here, probe)
	share := shift / top[0]
	for _, step := range [][2]float64{{1 + share, 0}, {math.Max(1-share, 0), 0}, {1, shift}, {1, -shift}} {
		dev.Lin(there, step[0], v, step[1], probe)
		if err := l.widen(ctx, at, here, there, probe); err != nil {
			return err
		}
	}
	at.known.Neighbours = true
	return nil
}

// widen includes the trace of the derivative at the argument there in the range of at, if its image
// of the probe differs from here, the image of at's own derivative.
func (l *implicit) widen(ctx context.Context, at *implicit, here, there, probe array.Batch) error {
	dev := there.Device()
	t := dev.Alloc(1, there.N())
	defer t.Free()
	j, err := l.p.R.Linearize(t, there, l.eta)
	if err != nil {
		return err
	}
	func() {
		defer j.Release()
		j.Apply(t, probe)
	}()
	dev.Lin(t, 1, t, -1, here)
	var most [1]float64
	dev.MaxAbs(most[:], t)
	if most[0] <= differs {
		return dev.Err()
	}
	other, err := l.at(ctx, there)
	if err != nil {
		return err
	}
	defer other.Release()
	if other.known.Known {
		at.known.Low, at.known.High = math.Min(at.known.Low, other.known.Low), math.Max(at.known.High, other.known.High)
		at.known.Margin = math.Min(at.known.Margin, other.known.Margin)
	}
	return nil
}

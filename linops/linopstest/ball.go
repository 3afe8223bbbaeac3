package linopstest

import (
	"math"

	"surepipe/array"
	"surepipe/linops"
)

// ballSteps compares steps for balls of several kinds with the formula of [linops.BallStep]. On a device whose vectors
// are not in host memory there is none.
func (c *checker) ballSteps() {
	if c.s.BallStep == nil {
		return
	}
	a := c.matrix()
	if a == nil {
		return
	}
	zero := make([]bool, c.d)
	for i := range zero {
		zero[i] = norm(a.RawRowView(i)) == 0
	}
	for planes := 1; planes <= 4; planes++ {
		for channels := 1; c.d%planes == 0 && channels <= 4; channels++ {
			if c.d/planes%channels == 0 {
				c.ballStep(planes, channels, zero)
			}
		}
	}
}

// ballStep is one step. zero are the rows of A that are 0.
func (c *checker) ballStep(planes, channels int, zero []bool) {
	s := linops.BallStep{Momentum: 0.7, Back: 0.5, Step: 0.3, Radius: 1.1, Planes: planes, Channels: channels,
		Uphill: true}
	u, before, b := gaussian(c.d, 680), gaussian(c.d, 681), gaussian(c.p, 682)
	s.Dst, s.U, s.Before = c.dev.Alloc(1, c.d), c.dev.Alloc(1, c.d), c.dev.Alloc(1, c.d)
	s.B = c.dev.Alloc(1, c.p)
	defer func() {
		for _, x := range []array.Batch{s.Dst, s.U, s.Before, s.B} {
			x.Free()
		}
	}()
	c.dev.Fill(s.Dst, canary)
	c.dev.Upload(s.U, u)
	c.dev.Upload(s.Before, before)
	c.dev.Upload(s.B, b)
	uphill, ok := c.s.BallStep(s)
	got := s.Dst.ToHost()
	x := make([]float64, c.d)
	for i := range x {
		if ok && zero[i] {
			u[i], before[i] = 0, 0
		}
		x[i] = u[i] + s.Momentum*(u[i]-before[i])
	}
	if different(s.U.ToHost(), u) >= 0 || different(s.Before.ToHost(), before) >= 0 ||
		different(s.B.ToHost(), b) >= 0 {
		c.failf("BallStep of %d planes, %d channels changes what it is given", planes, channels)
	}
	if !ok {
		for _, v := range got {
			if v != canary {
				c.failf("BallStep of %d planes, %d channels takes no step, but has written to its destination", planes,
					channels)
				return
			}
		}
		return
	}
	back := c.apply(c.a.Adjoint, c.p, 1, x)
	for j, v := range back {
		back[j] = b[j] - s.Back*v
	}
	want := c.apply(c.a.Forward, c.d, 1, back)
	for i := range want {
		want[i] = x[i] + s.Step*want[i]
	}
	n, sum := c.d/planes, 0.0
	for from := 0; from < n; from += channels {
		square := 0.0
		each := func(f func(i int)) {
			for plane := range planes {
				for i := from; i < from+channels; i++ {
					f(plane*n + i)
				}
			}
		}
		each(func(i int) { square += want[i] * want[i] })
		each(func(i int) { want[i] *= math.Min(1, s.Radius/math.Sqrt(square)) })
	}
	for i, v := range want {
		sum += (x[i] - v) * (v - u[i])
	}
	c.agree("BallStep", got, want)
	if !(math.Abs(uphill-sum) <= 1e-10*(1+math.Abs(sum))) {
		c.failf("BallStep of %d planes, %d channels: uphill is %v, want %v", planes, channels, uphill, sum)
	}
}

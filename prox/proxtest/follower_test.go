package proxtest_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/prox"
	"surepipe/prox/proxtest"
)

// followed is the l1 prox with a follower of its own: off by what evaluations are asked to
// be near, unless changed.
type followed struct {
	prox.Prox
	change func(f *follower)
}

func (p followed) Structure() prox.Structure { return prox.Structure{Follow: p.follow} }

func (p followed) follow() prox.Follower {
	f := &follower{p: p.Prox, off: 1, claim: 1}
	if p.change != nil {
		p.change(f)
	}
	return f
}

type follower struct {
	p          prox.Prox
	off, claim float64 // multiples of near
	never      bool
	fails      bool
	held       array.Batch
	near       float64
}

func (f *follower) Eval(_ context.Context, dst, v array.Batch, t, near float64) error {
	if f.fails {
		return errors.New("no")
	}
	if f.held.IsZero() {
		f.held = v.Device().Alloc(1, 1)
	}
	f.near = near
	if err := f.p.Eval(dst, v, t); err != nil {
		return err
	}
	dev := v.Device()
	e := dev.Alloc(1, v.N())
	defer e.Free()
	dev.Fill(e, f.off*near/math.Sqrt(float64(v.N())))
	dev.Lin(dst, 1, dst, 1, e)
	return nil
}

func (f *follower) Certify(context.Context, array.Batch, float64) (float64, bool, error) {
	return f.claim * f.near, !f.never, nil
}

func (f *follower) Release() {
	f.held.Free()
	f.held = array.Batch{}
}

func TestCheckFindsBrokenFollowers(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		l1 := prox.NewL1(1)
		for _, c := range []struct {
			name   string
			change func(f *follower)
			want   string
		}{
			{"sound", nil, ""},
			{"off by more than certified", func(f *follower) { f.claim = 0.5 }, "certified to"},
			{"certified to more than wanted", func(f *follower) { f.off, f.claim = 3, 3 }, "was wanted"},
			{"never certified", func(f *follower) { f.never = true }, "not certified"},
			{"error", func(f *follower) { f.fails = true }, "Follower.Eval: no"},
		} {
			err := proxtest.Check(dev, followed{l1, c.change}, dim)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("%s: %v", c.name, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), "follower")):
				t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
			}
		}
	})
}

package vjp

import (
	"math"
	"sync"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
)

// oneStep is the control variate of probes by one step of the fixed point, where A picks most entries, W^{1/2} S but
// for terms: D mu_hat is near eta W^{1/2} S J S* W^{1/2}, whose diagonal is known where that of J is. What it takes is
// made when it is first asked for.
type oneStep struct {
	dev      array.Device
	j        prox.Derivative
	diagonal func() []float64 // of J; where it returns nil, nothing is improved
	seen     *linops.Picked
	eta      float64
	d, p     int

	mu      sync.Mutex // of what follows, until it is made
	made    bool
	on      array.Index
	vectors array.Batch // (eta w)^{1/2}, and the diagonal; zero where that is not known
}

func (c *oneStep) prepare() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made {
		return
	}
	c.made = true
	all := c.diagonal()
	if all == nil {
		return
	}
	host := make([]float64, 2*c.d)
	roots, diagonal := host[:c.d], host[c.d:]
	for e, place := range c.seen.Places {
		w := c.eta
		if c.seen.Weights != nil {
			w *= c.seen.Weights[e]
		}
		roots[e], diagonal[e] = math.Sqrt(w), w*all[place]
	}
	c.on, c.vectors = c.dev.NewIndex(c.seen.Places), c.dev.Put(host, 2, c.d)
}

// improve is the function of [Closed].Control.
func (c *oneStep) improve(signs, image array.Batch) {
	c.prepare()
	if c.vectors.IsZero() {
		return
	}
	dev := signs.Device()
	x, own := dev.Alloc(signs.K(), c.p), dev.Alloc(signs.K(), c.d)
	defer array.Free(x, own)
	dev.Mul(own, c.vectors.Rows(0, 1), signs)
	dev.Scatter(x, own, c.on)
	c.j.Apply(x, x)
	dev.Gather(own, x, c.on)
	dev.Mul(own, c.vectors.Rows(0, 1), own)
	dev.Lin(image, 1, image, -1, own)
	dev.Mul(own, c.vectors.Rows(1, 2), signs)
	dev.Lin(image, 1, image, 1, own)
}

func (c *oneStep) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.on == nil {
		return 0
	}
	return c.on.Bytes() + c.vectors.Bytes()
}

func (c *oneStep) Release() {
	if c.on != nil {
		c.on.Free()
	}
	c.vectors.Free()
}

package series

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/lists"
	"surepipe/progress"
)

// multiples are those of the edge that SURE is compared at.
var multiples = func() (m []float64) {
	for c := 0.4; c < 1.65; c += 0.05 {
		m = append(m, c)
	}
	return m
}()

// choosePatch sets the patch to that of least SURE among the candidates, of estimates of a part of the series. What
// jumps has the default patch: SURE leaves out its jumps.
func (o Options) choosePatch(ctx context.Context, from Source, sigma []float64) (Options, error) {
	shape := from.Shape()
	o.Patch = DefaultPatch(shape.Image, shape.Volumes)
	d, err := o.prepare(from, sigma)
	if err != nil || !d.shrink.Continuous {
		return o, err
	}
	sides := candidates(shape.Image, shape.Volumes)
	if len(sides) < 2 {
		return o, nil
	}
	p := middle(from, o.Mask, sides[len(sides)-1])
	inside, level := p.cut(o.Mask, sigma)
	least, best := math.Inf(1), o
	ctx = progress.With(ctx, func(progress.Report) {})
	for _, patch := range sides {
		with := o.on(patch)
		part := with.on(p.size)
		part.Patch, part.Mask, part.Keep = patch, inside, nil
		sure := 0.0
		if _, err := Denoise(ctx, p, level, part, func(s Slice) error {
			sure += p.inner(s)
			return nil
		}); err != nil {
			return o, err
		}
		if sure != 0 && sure < least { // 0: no voxel of the mask is there
			least, best = sure, with
		}
	}
	return best, nil
}

func (o Options) on(patch Extent) Options {
	o.Patch = patch
	for axis, side := range patch {
		o.Stride[axis] = min(o.Stride[axis], side)
	}
	return o
}

// candidates are the cubes, cut to the image, of a fifth up to twice as many voxels as there are volumes, each of 1.9
// times the voxels of the one before or more.
func candidates(image Extent, volumes int) (all []Extent) {
	last := 0.0
	for side := 2; side <= max(image[0], image[1], image[2]); side++ {
		e := Extent{min(side, image[0]), min(side, image[1]), min(side, image[2])}
		n := float64(e.voxels())
		if n > 2*float64(volumes) {
			break
		}
		if n >= max(float64(volumes)/5, 4, 1.9*last) {
			all, last = append(all, e), n
		}
	}
	return all
}

// part is a box of a series, and a box in it whose voxels have all patches that they have in the series.
type part struct {
	Source
	at, size  Extent
	low, high Extent
	whole     []float64
}

// middle is a box of at most 24 x 24 x 4 voxels about the middle of the mask, in one that is a patch larger.
func middle(from Source, mask []bool, patch Extent) *part {
	image := from.Shape().Image
	low, high := image, Extent{}
	for i := range image.voxels() {
		if mask == nil || mask[i] {
			for axis, v := range [3]int{i % image[0], i / image[0] % image[1], i / (image[0] * image[1])} {
				low[axis], high[axis] = min(low[axis], v), max(high[axis], v+1)
			}
		}
	}
	p := &part{Source: from}
	for axis, n := range image {
		margin := patch[axis] - 1
		p.size[axis] = min([3]int{24, 24, 4}[axis]+2*margin, n)
		p.at[axis] = min(max((low[axis]+high[axis]-p.size[axis])/2, 0), n-p.size[axis])
		p.high[axis] = p.size[axis]
		if p.at[axis] > 0 {
			p.low[axis] = margin
		}
		if p.at[axis]+p.size[axis] < n {
			p.high[axis] -= margin
		}
	}
	return p
}

// inner is SURE of the inner box's voxels in the mask.
func (p *part) inner(s Slice) (sum float64) {
	if s.Z < p.low[2] || s.Z >= p.high[2] {
		return 0
	}
	for y := p.low[1]; y < p.high[1]; y++ {
		for x := p.low[0]; x < p.high[0]; x++ {
			if v := s.Risk[y*p.size[0]+x]; !math.IsNaN(v) {
				sum += v
			}
		}
	}
	return sum
}

func (p *part) Shape() Shape {
	s := p.Source.Shape()
	s.Image = p.size
	return s
}

func (p *part) Slice(dst []float64, z int) error {
	shape := p.Source.Shape()
	p.whole = lists.Resize(p.whole, shape.slice())
	if err := p.Source.Slice(p.whole, p.at[2]+z); err != nil {
		return err
	}
	n := p.size[0] * shape.course()
	for y := range p.size[1] {
		copy(dst[y*n:][:n], p.whole[((p.at[1]+y)*shape.Image[0]+p.at[0])*shape.course():])
	}
	return nil
}

func (p *part) cut(mask []bool, sigma []float64) (inside []bool, level []float64) {
	image := p.Source.Shape().Image
	for z := range p.size[2] {
		for y := range p.size[1] {
			at := ((p.at[2]+z)*image[1]+p.at[1]+y)*image[0] + p.at[0]
			level = append(level, sigma[at:at+p.size[0]]...)
			if mask != nil {
				inside = append(inside, mask[at:at+p.size[0]]...)
			}
		}
	}
	return inside, level
}

// chooseMultiple finds the multiple of the edge of the least sum of SURE over patches: of a large series those that do
// not overlap.
func (d *denoiser) chooseMultiple(ctx context.Context) error {
	stride := d.o.Stride
	defer func() { d.o.Stride, d.choosing = stride, false }()
	d.choosing = true
	if d.image.voxels() > 1<<14 {
		d.o.Stride = d.o.Patch
	}
	total := make([]float64, len(multiples))
	for _, z := range starts(d.image[2], d.o.Patch[2], d.o.Stride[2]) {
		if err := d.hold(z, d.o.Patch[2]); err != nil {
			return err
		}
		rows := make([][]float64, d.image[1])
		if err := d.patchesAt(ctx, z, func(p *work, y int) error {
			if rows[y] == nil {
				rows[y] = make([]float64, len(multiples))
			}
			edge := d.shrink.Edge(p.beta())
			for i, c := range multiples {
				p.shrink(d.shrink, c*edge)
				rows[y][i] += p.sure()
			}
			return nil
		}); err != nil {
			return err
		}
		for _, row := range rows {
			for i, v := range row { // nil where no patch begins
				total[i] += v
			}
		}
	}
	d.multiple = multiples[floats.MinIdx(total)]
	clear(d.slices) // read again from the first on
	return nil
}

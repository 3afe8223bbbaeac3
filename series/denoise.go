package series

import (
	"context"
	"errors"
	"fmt"
	"math"

	"surepipe/internal/lists"
	"surepipe/internal/parallel"
	"surepipe/progress"
)

// Thresholds say where singular values are cut.
type Thresholds string

const (
	// ByEdge takes the largest singular value of noise alone: [Shrinkage.Edge].
	ByEdge Thresholds = "edge"
	// BySURE takes the multiple of the edge of least SURE in each patch. SURE of the result takes it as
	// fixed: it is too small by what the choice gains from noise.
	BySURE Thresholds = "sure"
	// BySeriesSURE takes one multiple for the whole series, that of the least sum of SURE over the patches.
	BySeriesSURE Thresholds = "series-sure"
)

// Average says by which weights overlapping patches are averaged.
type Average string

const (
	// Uniform weighs all patches alike.
	Uniform Average = "uniform"
	// Gaussian weighs the middle of a patch more.
	Gaussian Average = "gaussian"
	// InverseRank weighs a patch of rank r by 1/(1 + r).
	InverseRank Average = "rank"
	// InverseRisk weighs a patch by the inverse of its SURE by value, at least that of a rank of a half.
	InverseRisk Average = "risk"
)

// Options say how a series is denoised. The zero value is the default.
type Options struct {
	// Patch is the size of a patch: where it is 0, the cube of least SURE on a part of the series. Stride is the
	// distance of patches: where it is 0, 2, or 1 along a side of less than 4.
	Patch, Stride Extent
	// Shrinkage is the name of one of [Shrinkages].
	Shrinkage string
	// Thresholds is BySeriesSURE, or ByEdge for what jumps, and Average Gaussian, where they are "".
	Thresholds Thresholds
	Average    Average
	// Mask says which voxels are denoised, slice by slice; nil is all. The others are returned as they are.
	Mask []bool
	// Keep is a design of p columns, N x p and row-major. What it explains of a voxel's course is kept as it is, and
	// the rest is denoised: a regression on the design has the same coefficients before and after.
	Keep []float64
}

// Slice is a denoised slice. Clean is as [Source] has it; the others have a value a voxel, NaN outside of the mask.
type Slice struct {
	Z     int
	Clean []float64
	// DF are the degrees of freedom: the divergence of the estimate with respect to the voxel's values.
	DF []float64
	// Risk is SURE, an unbiased estimate of the squared error of the voxel's values in units of y^2; it is negative at
	// some.
	Risk []float64
	// Rank is the average rank of the patches.
	Rank []float64
	// Removed is the correlation, over the series, of what was removed with that at the neighbouring voxels
	// along x and y: about 0 for noise, and larger where signal was removed.
	Removed []float64
}

// Summary is what is known of the whole.
type Summary struct {
	// Values is the number of real numbers that were denoised, Voxels that of voxels.
	Values, Voxels int
	// DF and SURE are the sums over voxels, and SURE's standard error is estimated from its own formula.
	DF, SURE, SUREStdErr float64
	// Patch, Stride, Patches, Rank and Multiple are what was used: the last two on average.
	Patch, Stride  Extent
	Patches        int
	Rank, Multiple float64
	// Removed is the average of [Slice].Removed, and RemovedStdErr its standard error for white noise.
	Removed, RemovedStdErr float64
	// Serial is the average correlation, in volumes that follow each other, of what voxels differ from their neighbours
	// by, where that is least, and SerialStdErr its standard error for white noise.
	Serial, SerialStdErr float64
	// Spikes is the number of values that stand out alone, and SpikeShare their squares over those of all noise; 0
	// where they are too few to matter.
	Spikes     int
	SpikeShare float64
	// UnevenBy is x, y, z or volume where the noise has not the variance that it is taken for everywhere along it:
	// their ratio is UnevenRatio in the parts at LeastAt and GreatestAt. "" where it has.
	UnevenBy                         string
	UnevenRatio, LeastAt, GreatestAt float64
	// Variance is the sum of sigma^2 over the values: the squared error of the data.
	Variance float64
	// Options are those of the call, with the defaults filled in.
	Options Options
}

// Denoise removes noise of the standard deviation sigma, a value a voxel, slice by slice. It calls emit with every
// slice, in order. At most patch + 1 slices are in memory. It ends soon after ctx does, with its cause.
func Denoise(ctx context.Context, from Source, sigma []float64, o Options, emit func(Slice) error) (Summary, error) {
	var k *kept
	if o.Keep != nil {
		var err error
		if k, err = keep(from, o.Keep); err != nil {
			return Summary{}, err
		}
		from = k
	}
	if o.Patch == (Extent{}) {
		var err error
		if o, err = o.choosePatch(ctx, from, sigma); err != nil {
			return Summary{}, err
		}
	}
	d, err := o.prepare(from, sigma)
	if err != nil {
		return Summary{}, err
	}
	d.kept = k
	if d.o.Thresholds == BySeriesSURE {
		if err := d.chooseMultiple(ctx); err != nil {
			return Summary{}, err
		}
	}
	report := progress.From(ctx)
	next := 0
	for k, z := range d.zs {
		if err := d.hold(z, d.o.Patch[2]); err != nil {
			return Summary{}, err
		}
		if err := d.patchesAt(ctx, z, d.add); err != nil {
			return Summary{}, err
		}
		end := d.image[2]
		if k+1 < len(d.zs) {
			end = d.zs[k+1]
		}
		for ; next < end; next++ {
			s, err := d.finish(next)
			if err != nil {
				return Summary{}, err
			}
			if err := emit(s); err != nil {
				return Summary{}, err
			}
		}
		report(progress.Report{Stage: progress.Patches, Step: k + 1, Steps: len(d.zs)})
	}
	return d.summary(), nil
}

type denoiser struct {
	slab
	o        Options
	shape    Shape
	image    Extent
	shrink   Shrinkage
	sigma    []float64
	multiple float64
	choosing bool // the multiple, from singular values alone
	kept     *kept
	zs       []int
	sums     map[int]*sums
	total    Summary
	sure2    float64 // 4 sigma^2 ||residual||^2 + ..., of the error of SURE
	pairs    int
	watched  residuals
}

// sums are those over the patches of a slice.
type sums struct {
	clean                    []float64
	weight, df, rank, choice []float64
}

// prepare checks the options and fills in the defaults.
func (o Options) prepare(from Source, sigma []float64) (*denoiser, error) {
	shape := from.Shape()
	if err := shape.check(); err != nil {
		return nil, err
	}
	for axis := range o.Stride {
		if o.Stride[axis] == 0 {
			o.Stride[axis] = max(1, min(2, o.Patch[axis]/2))
		}
		if o.Stride[axis] < 1 || o.Stride[axis] > o.Patch[axis] {
			return nil, fmt.Errorf("series: a stride of %d along an axis with patches of %d voxels, expected 1 to %d",
				o.Stride[axis], o.Patch[axis], o.Patch[axis])
		}
	}
	if o.Shrinkage == "" {
		o.Shrinkage = Shrinkages[0].Name
	}
	shrink, ok := lists.Find(Shrinkages, func(s Shrinkage) bool { return s.Name == o.Shrinkage })
	if !ok {
		return nil, fmt.Errorf("series: shrinkage %q, expected optimal, hard or soft", o.Shrinkage)
	}
	if o.Thresholds == "" {
		if o.Thresholds = BySeriesSURE; !shrink.Continuous {
			o.Thresholds = ByEdge
		}
	}
	if o.Average == "" {
		o.Average = Gaussian
	}
	switch o.Thresholds {
	case ByEdge, BySURE, BySeriesSURE:
	default:
		return nil, fmt.Errorf("series: thresholds %q, expected edge, sure or series-sure", o.Thresholds)
	}
	switch o.Average {
	case Uniform, Gaussian, InverseRank, InverseRisk:
	default:
		return nil, fmt.Errorf("series: average %q, expected uniform, gaussian, rank or risk", o.Average)
	}
	err := errors.Join(checkPatch(shape, o.Patch), checkMask(shape, o.Mask), checkSigma(shape, sigma, o.Mask))
	return &denoiser{
		slab: slab{from: from, mask: o.Mask, slices: map[int][]float64{}},
		o:    o, shape: shape, image: shape.Image, shrink: shrink, sigma: sigma, multiple: 1,
		zs:   starts(shape.Image[2], o.Patch[2], o.Stride[2]),
		sums: map[int]*sums{},
	}, err
}

func checkSigma(shape Shape, sigma []float64, mask []bool) error {
	if len(sigma) != shape.Image.voxels() {
		return fmt.Errorf("series: sigma of %d voxels for an image of %d", len(sigma), shape.Image.voxels())
	}
	for i, v := range sigma {
		if !(v > 0) || math.IsInf(v, 1) {
			if mask == nil || mask[i] {
				return &ValueError{fmt.Sprintf("sigma is %g", v), shape.voxel(i/shape.area(), i%shape.area()),
					"a positive number, or a mask without that voxel"}
			}
		}
	}
	return nil
}

// patchesAt decomposes the patches that begin at slice z and calls f with each. Calls at the same time are for
// patches that do not overlap.
func (d *denoiser) patchesAt(ctx context.Context, z int, f func(p *work, y int) error) error {
	xs := starts(d.image[0], d.o.Patch[0], d.o.Stride[0])
	ys := starts(d.image[1], d.o.Patch[1], d.o.Stride[1])
	for k := z; k < z+d.o.Patch[2]; k++ {
		if d.sums[k] == nil && !d.choosing {
			d.sums[k] = &sums{clean: make([]float64, d.shape.slice()), weight: make([]float64, d.shape.area()),
				df: make([]float64, d.shape.area()), rank: make([]float64, d.shape.area()),
				choice: make([]float64, d.shape.area())}
		}
	}
	for _, rows := range apart(ys, d.o.Patch[1]) {
		err := parallel.Each(len(rows), func() *work { return new(work) }, func(i int, p *work) error {
			for _, x := range xs {
				if err := context.Cause(ctx); err != nil {
					return err
				}
				if !p.gather(&d.slab, x, rows[i], z, d.o.Patch, d.sigma) {
					continue
				}
				if err := p.decompose(!d.choosing, d.edge(p)); err != nil {
					return err
				}
				if err := f(p, rows[i]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// edge is the threshold below which all values are mapped to 0, in the unit of a patch; 0 where the values matter even
// so.
func (d *denoiser) edge(p *work) float64 {
	if d.o.Thresholds == BySURE || d.choosing {
		return 0
	}
	return d.multiple * d.shrink.Edge(p.beta()) * p.unit()
}

// choose sets f of a patch's singular values, and returns the multiple of the edge and the rank.
func (d *denoiser) choose(p *work) (multiple float64, rank int) {
	edge := d.shrink.Edge(p.beta())
	multiple = d.multiple
	if d.o.Thresholds == BySURE {
		least := math.Inf(1)
		for _, c := range multiples {
			p.shrink(d.shrink, c*edge)
			if sure := p.sure(); sure < least {
				least, multiple = sure, c
			}
		}
	}
	return multiple, p.shrink(d.shrink, multiple*edge)
}

func (d *denoiser) weight(p *work, rank int) float64 {
	share := float64(len(p.at)) / float64(d.o.Patch.voxels())
	switch d.o.Average {
	case InverseRank:
		return share / (1 + float64(rank))
	case InverseRisk:
		m, n := float64(len(p.at)), float64(d.shape.Volumes)
		return share / max(p.sure()/float64(d.shape.Parts())/(m+n), 0.5)
	}
	return share
}

// near is the weight of a voxel of a patch.
func (d *denoiser) near(middle [3]float64, at place) float64 {
	if d.o.Average != Gaussian {
		return 1
	}
	x, y := float64(at.i%d.image[0]), float64(at.i/d.image[0])
	sum := 0.0
	for axis, v := range [3]float64{x, y, float64(at.z)} {
		r := (v - middle[axis]) / width(d.o.Patch[axis])
		sum += r * r
	}
	return math.Exp(-sum / 2)
}

func (d *denoiser) add(p *work, _ int) error {
	multiple, rank := d.choose(p)
	p.estimate()
	w := d.weight(p, rank)
	var middle [3]float64
	if d.o.Average == Gaussian {
		middle = p.middle(d.shape)
	}
	n, parts, area := d.shape.Volumes, d.shape.Parts(), d.shape.area()
	m := len(p.at)
	for k, at := range p.at {
		weight := w * d.near(middle, at)
		s := d.sums[at.z]
		s.weight[at.i] += weight
		s.df[at.i] += weight * p.rows[k]
		s.rank[at.i] += weight * float64(rank)
		s.choice[at.i] += weight * multiple
		scaled := weight * d.sigma[at.z*area+at.i]
		clean, row := s.clean[at.i*n*parts:][:n*parts], p.out[k*parts*n:][:n]
		if parts == 1 {
			for t, v := range row {
				clean[t] += scaled * v
			}
			continue
		}
		below := p.out[(m+k)*2*n:][:n]
		for t := range n {
			clean[2*t] += scaled * row[t]
			clean[2*t+1] += scaled * below[t]
		}
	}
	return nil
}

package spec

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/lists"
	"surepipe/internal/numerics"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/prox"
	"surepipe/prox/denoise"
)

// PatchSide is that of the patches of a local low rank, and patchStride their distance, where a specification does
// not say which.
const (
	PatchSide   = 8
	patchStride = 4
)

var localLowRankRegularizer = RegularizerKind{
	Name: "local-low-rank",
	Forms: []Form{{"local-low-rank: {weight: W, patch: 8, stride: 4}",
		"singular value thresholding in all patches of 8 x 8 pixels of a series (f, h, w), matrices of\n" +
			"frames x pixels, averaged over the (patch/stride)^2 tilings by patches; stride: 8 is one\ntiling, W " +
			"sum_k ||B_k||_*. Patches at the borders may be smaller, with a smaller threshold"}},
	Parameters: []Parameter{weight, {Name: "patch", Read: Count, Optional: true},
		{Name: "stride", Read: Count, Optional: true}},
	Build: func(a *Arguments, in Block) (Penalty, error) {
		if len(in.Shape) != 3 {
			return Penalty{}, fmt.Errorf("local-low-rank of an array of shape %s, expected a series of images, "+
				"(frames, rows, columns); surepipe denoise takes series of volumes", ndarray.ShapeString(in.Shape))
		}
		series := prox.Series{Frames: in.Shape[0], Rows: in.Shape[1], Cols: in.Shape[2],
			Patch: a.Count("patch", PatchSide), Stride: a.Count("stride", patchStride)}
		if !a.Given("stride") && series.Patch%series.Stride != 0 {
			series.Stride = series.Patch
		}
		if err := series.Check(); err != nil {
			return Penalty{}, Trim(err)
		}
		w := a.Weight("weight")
		return Penalty{
			Norm: w,
			Dual: func(g []float64) (float64, error) { return largestOfPatches(series, g) },
			Make: w.Of(func(w float64) prox.Prox { return denoise.NewLocalLowRank(series, w) }),
		}, nil
	},
}

// largestOfPatches is the smallest weight at which every patch is thresholded to 0.
func largestOfPatches(series prox.Series, g []float64) (float64, error) {
	top := 0.0
	for _, p := range series.Patches() {
		m := mat.NewDense(series.Frames, p.Pixels(), nil)
		p.Visit(series, func(frame, pixel, at int) { m.Set(frame, pixel, g[at]) })
		values, err := numerics.SingularValues(m)
		if err != nil {
			return 0, err
		}
		top = max(top, values[0]/p.Scale)
	}
	return top, nil
}

// How the thresholds of the bands relate to one another.
const (
	thresholdsBySURE = "sure"
	thresholdsEqual  = "equal"
)

// MostChannels is the largest last axis of an array of three axes that is an image.
const MostChannels = 4

var shrinkageRegularizer = RegularizerKind{
	Name: "wavelet-shrinkage",
	Forms: []Form{
		{"wavelet-shrinkage: {weight: W, family: db2, levels: 5, thresholds: sure}",
			"soft thresholding in all shifts of a wavelet basis at once (cycle spinning), of a sequence,\n" +
				"an image (m, n) or a colour image (m, n, 3), where the thresholds of brightness and of\n" +
				"colour differences are apart. For the convex r of which this is the proximal operator"},
		{"", "thresholds: sure    W times the threshold of least SURE, for each level and direction,\nchosen at " +
			"y, which is why it needs sigma2, and operator: identity"},
		{"", "thresholds: equal   W, in units of y, for all"},
	},
	Parameters: []Parameter{weight, {Name: "family", Read: Text}, {Name: "levels", Read: Count},
		{Name: "thresholds", Read: Choice(thresholdsBySURE, thresholdsEqual), Optional: true}},
	Build: func(a *Arguments, in Block) (p Penalty, err error) {
		frame, err := shrinkageFrame(in.Shape, a.Text("family", ""), a.Count("levels", 0))
		if err != nil {
			return p, err
		}
		units, unit := equalThresholds(frame), func(sigma float64) float64 { return sigma }
		if a.Text("thresholds", thresholdsBySURE) == thresholdsBySURE {
			if units, err = a.thresholdsOfLeastSURE(frame); err != nil {
				return p, err
			}
			unit = func(float64) float64 { return 1 }
		}
		w := a.Weight("weight")
		return Penalty{
			Norm: w, Free: true, Unit: unit,
			Dual: func(g []float64) (float64, error) { return largestRatio(frame, units, g), nil },
			Make: w.Of(func(w float64) prox.Prox {
				scaled := make([]float64, len(units))
				for band, c := range units {
					if c > 0 {
						scaled[band] = w * c
					}
				}
				return denoise.NewShrinkage(frame, scaled)
			}),
		}, nil
	},
}

// shrinkageFrame is the frame for a sequence, an image, or an image of a few channels.
func shrinkageFrame(shape []int, family string, levels int) (f *imaging.Undecimated, err error) {
	switch {
	case len(shape) == 1:
		f, err = imaging.NewUndecimated1D(shape[0], family, levels)
	case len(shape) == 2:
		f, err = imaging.NewUndecimated2D(shape[0], shape[1], 1, family, levels)
	case len(shape) == 3 && shape[2] <= MostChannels:
		f, err = imaging.NewUndecimated2D(shape[0], shape[1], shape[2], family, levels)
	default:
		return nil, fmt.Errorf("wavelet-shrinkage of an array of shape %s, expected a sequence, an image (m, n), "+
			"or an image of up to %d channels (m, n, 3)", ndarray.ShapeString(shape), MostChannels)
	}
	if err != nil {
		return nil, Trim(err)
	}
	return f, nil
}

// normOf is the length of a band's frame vectors away from the boundaries, by which white noise of
// standard deviation 1 shows in the band.
func normOf(f *imaging.Undecimated, band int) float64 {
	down, along := f.Norms2(band)
	return math.Sqrt(down[len(down)/4] * along[len(along)/4])
}

// equalThresholds are 1 for coefficients in the units of y, and 0 for the averages.
func equalThresholds(f *imaging.Undecimated) []float64 {
	units := make([]float64, f.Bands())
	for band := range units {
		if _, averages := f.Level(band); !averages {
			units[band] = normOf(f, band)
		}
	}
	return units
}

// thresholdsOfLeastSURE chooses the threshold of each band of details by SURE at y.
func (b *builder) thresholdsOfLeastSURE(f *imaging.Undecimated) ([]float64, error) {
	switch {
	case !linops.StructureOf(b.parts.Operator).Identity || b.data.Intercept:
		return nil, fmt.Errorf("thresholds is sure, but y is not the signal with noise: expected operator: " +
			"identity without a synthesis, or thresholds: equal")
	case b.parts.Weights != nil:
		return nil, fmt.Errorf("thresholds is sure, but the observations have weights: expected none, or " +
			"thresholds: equal")
	case b.data.Sigma2 == nil:
		return nil, fmt.Errorf("thresholds is sure, which needs sigma2: expected sigma2, a number or auto, in the " +
			"specification or as --sigma2, or thresholds: equal")
	}
	sigma := math.Sqrt(*b.data.Sigma2)
	units := make([]float64, f.Bands())
	for band, z := range sampledBands(f, b.data.Y) {
		if z == nil {
			continue
		}
		noise := sigma * normOf(f, band)
		for i := range z {
			z[i] /= noise
		}
		units[band] = noise * thresholdOfLeastSURE(z)
		b.parts.Thresholds++
	}
	return units, nil
}

// thresholdOfLeastSURE returns the t that minimizes SURE of soft thresholding, for coefficients
// with noise of standard deviation 1,
//
//	SURE(t) = n - 2 #{|z_i| <= t} + sum_i min(|z_i|, t)^2,
//
// among 0 and the |z_i|, where the minimum is. It sorts z's magnitudes, in place.
//
// Donoho and Johnstone, Adapting to unknown smoothness via wavelet shrinkage, J. Amer. Statist.
// Assoc. 90 (1995).
func thresholdOfLeastSURE(z []float64) float64 {
	for i, v := range z {
		z[i] = math.Abs(v)
	}
	slices.Sort(z)
	best, least, below := 0.0, 0.0, 0.0
	for i, t := range z {
		below += t * t
		if sure := below + float64(len(z)-1-i)*t*t - 2*float64(i+1); sure < least {
			best, least = t, sure
		}
	}
	return best
}

// sampledBands returns the coefficients of each band of details, without the reflected ones, and of
// a coarse level every few lines and places, between which they hardly change; nil for averages.
func sampledBands(f *imaging.Undecimated, y []float64) [][]float64 {
	lines, length := f.Lines()
	if lines > 1 {
		lines /= 2
	}
	length /= 2
	sampled := make([][]float64, f.Bands())
	steps, along := make([]int, len(sampled)), make([]int, len(sampled))
	for band := range sampled {
		level, averages := f.Level(band)
		if averages {
			continue
		}
		steps[band] = 1 << max(level-1, 0)
		along[band] = (length-1)/steps[band] + 1
		sampled[band] = make([]float64, ((lines-1)/steps[band]+1)*along[band])
	}
	f.Filter(make([]float64, len(y)), y, func(band, line int, z []float64) {
		step := steps[band]
		if sampled[band] == nil || line >= lines || line%step != 0 {
			return
		}
		to := sampled[band][line/step*along[band]:][:along[band]]
		for j := range to {
			to[j] = z[j*step]
		}
	})
	return sampled
}

// largestRatio is the largest ratio of a coefficient of g to its band's unit: the weight at which
// nothing but averages is left.
func largestRatio(f *imaging.Undecimated, units, g []float64) float64 {
	lines, _ := f.Lines()
	ratios := make([]float64, f.Bands()*lines)
	f.Filter(make([]float64, len(g)), g, func(band, line int, z []float64) {
		if units[band] > 0 {
			ratios[band*lines+line] = lists.MaxAbs(z) / units[band]
		}
	})
	return slices.Max(ratios)
}

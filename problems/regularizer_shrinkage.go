package problems

import (
	"fmt"
	"math"
	"slices"

	"go.yaml.in/yaml/v3"

	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/prox"
	"surepipe/prox/denoise"
)

// How the thresholds of the bands relate to one another.
const (
	thresholdsBySURE = "sure"
	thresholdsEqual  = "equal"
)

// mostChannels is the largest last axis of an array of three axes that is an image.
const mostChannels = 4

var shrinkageRegularizer = regularizerKind{
	name: "wavelet-shrinkage",
	forms: []form{
		{"wavelet-shrinkage: {weight: W, family: db2, levels: 5, thresholds: sure}",
			"soft thresholding in all shifts of a wavelet basis at once (cycle spinning), of a sequence,\n" +
				"an image (m, n) or a colour image (m, n, 3), where the thresholds of brightness and of\n" +
				"colour differences are apart. For the convex r of which this is the proximal operator"},
		{"", "thresholds: sure    W times the threshold of least SURE, for each level and direction,\nchosen at " +
			"y, which is why it needs sigma2, and operator: identity"},
		{"", "thresholds: equal   W, in units of y, for all"},
	},
	parse: func(s *Spec, n *regularizerNode, args *yaml.Node) (regularizerBuild, error) {
		f, err := s.arguments(n, args, "weight", "family", "levels", "thresholds")
		if err != nil {
			return nil, err
		}
		for _, key := range []string{"family", "levels"} {
			if f.nodes[key] == nil {
				return nil, s.errorf(n.line, "wavelet-shrinkage has no %s, expected wavelet-shrinkage: {weight: "+
					"lambda, family: db2, levels: 5}", key)
			}
		}
		w, err := s.weight(n, f.nodes["weight"], "weight", false, false)
		if err != nil {
			return nil, err
		}
		family, levels, err := s.wavelet(f)
		if err != nil {
			return nil, err
		}
		thresholds := thresholdsBySURE
		if v := f.nodes["thresholds"]; v != nil {
			thresholds, err = s.choice(v, "thresholds", []string{thresholdsBySURE, thresholdsEqual})
		}
		return func(b *specBuilder, in part, _ []part) ([]*penalty, error) {
			frame, err := shrinkageFrame(in.shape, family, levels)
			if err != nil {
				return nil, err
			}
			units := equalThresholds(frame)
			if thresholds == thresholdsBySURE {
				if units, err = b.thresholdsOfLeastSURE(frame); err != nil {
					return nil, err
				}
			}
			return n.single(penalty{
				n: frame.Len(), norm: w, free: true,
				dual: func(g []float64) (float64, error) { return largestRatio(frame, units, g), nil },
				make: w.at(func(w float64) prox.Prox {
					scaled := make([]float64, len(units))
					for band, c := range units {
						if c > 0 {
							scaled[band] = w * c
						}
					}
					return denoise.NewShrinkage(frame, scaled)
				}),
			}), nil
		}, err
	},
}

// shrinkageFrame is the frame for a sequence, an image, or an image of a few channels.
func shrinkageFrame(shape []int, family string, levels int) (f *imaging.Undecimated, err error) {
	switch {
	case len(shape) == 1:
		f, err = imaging.NewUndecimated1D(shape[0], family, levels)
	case len(shape) == 2:
		f, err = imaging.NewUndecimated2D(shape[0], shape[1], 1, family, levels)
	case len(shape) == 3 && shape[2] <= mostChannels:
		f, err = imaging.NewUndecimated2D(shape[0], shape[1], shape[2], family, levels)
	default:
		return nil, fmt.Errorf("wavelet-shrinkage of an array of shape %s, expected a sequence, an image (m, n), "+
			"or an image of up to %d channels (m, n, 3)", formatShape(shape), mostChannels)
	}
	if err != nil {
		return nil, trim(err)
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
func (b *specBuilder) thresholdsOfLeastSURE(f *imaging.Undecimated) ([]float64, error) {
	switch {
	case !linops.StructureOf(b.p.Operator).Identity:
		return nil, fmt.Errorf("thresholds is sure, but y is not the signal with noise: expected operator: " +
			"identity without a synthesis, or thresholds: equal")
	case b.roots != nil:
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
		b.p.Thresholds++
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
			ratios[band*lines+line] = maxAbs(z) / units[band]
		}
	})
	return slices.Max(ratios)
}

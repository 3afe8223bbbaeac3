package series

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"surepipe/internal/parallel"
)

// Noise is an estimate of the standard deviation at every voxel, slice by slice, and the standard error of each.
type Noise struct {
	Sigma, StdErr []float64
	// Patches is the number of patches that it is from.
	Patches int
}

// marchenkoPastur is the variance of noise from the eigenvalues s^2 of a patch, and their number that noise explains.
// With L the larger side, the p smallest of K eigenvalues of noise of variance sigma^2 have the mean
// sigma^2 (L - K + p) and the range 4 sigma^2 sqrt(p (L - K + p)), up to terms of lower order. p is the
// largest number whose range is not wider.
//
// J. Veraart et al., Denoising of diffusion MRI using random matrix theory, NeuroImage 142 (2016); L. Cordero-Grande et
// al., Complex diffusion-weighted image estimation via matrix recovery under general noise models, NeuroImage 200
// (2019).
func (w *spectrum) marchenkoPastur() (variance float64, noise int) {
	k, c := len(w.s)/w.copies, w.copies
	longer := w.longer()/c - k
	sum, least := 0.0, w.s[0]*w.s[0]
	for p := 1; p <= k; p++ {
		value := w.s[(p-1)*c] * w.s[(p-1)*c]
		sum += value
		rest := float64(longer + p)
		mean := sum / float64(p) / rest
		if value-least <= 4*mean*math.Sqrt(float64(p)*rest) {
			variance, noise = mean, p
		}
	}
	return variance / float64(c), noise
}

type patchNoise struct {
	at       [3]float64 // the middle, in voxels
	variance float64
}

// EstimateNoise estimates the standard deviation of the noise at every voxel from the spectra of patches: the variance
// of each by the law of Marchenko and Pastur, which assumes that in a patch the noise is white and the signal of low
// rank; then a smooth map, the local averages of these variances by a Gaussian as wide as a patch. The standard error
// is from the spread of the variances that are averaged.
//
// mask, slice by slice, says which voxels count; nil is all.
func EstimateNoise(ctx context.Context, from Source, patch Extent, mask []bool) (Noise, error) {
	shape := from.Shape()
	if err := errors.Join(shape.check(), checkPatch(shape, patch), checkMask(shape, mask)); err != nil {
		return Noise{}, err
	}
	w := &slab{from: from, mask: mask, slices: map[int][]float64{}}
	step := func(side int) int { return (side + 1) / 2 }
	xs := starts(shape.Image[0], patch[0], step(patch[0]))
	ys := starts(shape.Image[1], patch[1], step(patch[1]))
	var all []patchNoise
	for _, z := range starts(shape.Image[2], patch[2], step(patch[2])) {
		if err := w.hold(z, patch[2]); err != nil {
			return Noise{}, err
		}
		found := make([][]patchNoise, len(ys))
		err := parallel.Each(len(ys), func() *work { return new(work) }, func(i int, p *work) error {
			for _, x := range xs {
				if err := context.Cause(ctx); err != nil {
					return err
				}
				if !p.gather(w, x, ys[i], z, patch, nil) || len(p.at)*2 < patch.voxels() {
					continue
				}
				if err := p.decompose(false, 0); err != nil {
					return err
				}
				if v, _ := p.marchenkoPastur(); v > 0 {
					found[i] = append(found[i], patchNoise{p.middle(shape), v})
				}
			}
			return nil
		})
		if err != nil {
			return Noise{}, err
		}
		all = append(all, slices.Concat(found...)...)
	}
	if len(all) == 0 {
		return Noise{}, fmt.Errorf("series: no patch of %d x %d x %d voxels has noise to estimate sigma from: values "+
			"are constant or of no full rank; give its standard deviation, --sigma", patch[0], patch[1], patch[2])
	}
	return smooth(shape, patch, all), nil
}

// middle is the mean of a patch's voxels.
func (p *work) middle(shape Shape) (m [3]float64) {
	for _, at := range p.at {
		for axis, v := range [3]int{at.i % shape.Image[0], at.i / shape.Image[0], at.z} {
			m[axis] += float64(v) / float64(len(p.at))
		}
	}
	return m
}

// smooth averages the variances by a Gaussian, axis by axis on the grid of voxels: each variance is at the voxel next
// to its patch's middle.
func smooth(shape Shape, patch Extent, all []patchNoise) Noise {
	n := shape.Image.voxels()
	sum, weight, square := make([]float64, n), make([]float64, n), make([]float64, n)
	for _, p := range all {
		at := 0
		for axis := 2; axis >= 0; axis-- {
			at = at*shape.Image[axis] + min(int(p.at[axis]+0.5), shape.Image[axis]-1)
		}
		sum[at] += p.variance
		weight[at]++
		square[at] += p.variance * p.variance
	}
	for _, values := range [][]float64{sum, weight, square} {
		blur(values, shape.Image, patch)
	}
	// How many voxels an average is worth: 1 over the sum of the Gaussian's squares.
	worth := 1.0
	for axis, side := range patch {
		if shape.Image[axis] > 1 {
			worth *= 2 * math.Sqrt(math.Pi) * width(side)
		}
	}
	total, squares := 0.0, 0.0
	for _, p := range all {
		total += p.variance
		squares += p.variance * p.variance
	}
	noise := Noise{Sigma: make([]float64, n), StdErr: make([]float64, n), Patches: len(all)}
	for i := range n {
		if weight[i] < 1e-200 { // far from all patches
			sum[i], weight[i], square[i] = total, float64(len(all)), squares
		}
		mean := sum[i] / weight[i]
		spread := max(square[i]/weight[i]-mean*mean, 0)
		sigma := math.Sqrt(mean)
		noise.Sigma[i] = sigma
		noise.StdErr[i] = math.Sqrt(spread/max(weight[i]*worth, 1)) / (2 * sigma)
	}
	return noise
}

// width is the standard deviation of the Gaussian for patches of a side: its full width at half of its height is the
// side.
func width(side int) float64 { return float64(side) / (2 * math.Sqrt(2*math.Ln2)) }

// blur convolves with a Gaussian that is cut where it is 1e-12 of its height, so that every voxel is reached.
func blur(v []float64, image, patch Extent) {
	stride := 1
	for axis, n := range image {
		sd := width(patch[axis])
		kernel := []float64{}
		for i := 0; i < n; i++ {
			kernel = append(kernel, math.Exp(-float64(i*i)/(2*sd*sd)))
		}
		line, out := make([]float64, n), make([]float64, n)
		for start := range len(v) {
			if start/stride%n != 0 {
				continue
			}
			for i := range n {
				line[i] = v[start+i*stride]
			}
			for i := range n {
				out[i] = 0
				for j, value := range line {
					if value != 0 {
						out[i] += value * kernel[max(i-j, j-i)] / (sd * math.Sqrt(2*math.Pi))
					}
				}
			}
			for i, value := range out {
				v[start+i*stride] = value
			}
		}
		stride *= n
	}
}

func checkPatch(shape Shape, patch Extent) error {
	for axis, side := range patch {
		if side < 1 || side > shape.Image[axis] {
			return fmt.Errorf("series: patches of %d x %d x %d voxels in an image of %d x %d x %d, expected sides of "+
				"1 "+
				"up to the image's", patch[0], patch[1], patch[2], shape.Image[0], shape.Image[1], shape.Image[2])
		}
	}
	if patch.voxels() < 2 {
		return errors.New("series: patches of one voxel, expected two or more")
	}
	return nil
}

func checkMask(shape Shape, mask []bool) error {
	if n := shape.Image.voxels(); mask != nil && len(mask) != n {
		return fmt.Errorf("series: a mask of %d voxels for an image of %d", len(mask), n)
	}
	return nil
}

// NoiseOf estimates the standard deviation at every voxel from a scan of noise alone, of one volume or more: the local
// averages of squares by a Gaussian as wide as a patch. magnitudes says that values are magnitudes of complex noise,
// whose squares have the mean 2 sigma^2.
func NoiseOf(scan Source, patch Extent, magnitudes bool) (Noise, error) {
	shape := scan.Shape()
	if err := checkPatch(shape, patch); err != nil {
		return Noise{}, err
	}
	var all []patchNoise
	values := make([]float64, shape.slice())
	for z := range shape.Image[2] {
		if err := scan.Slice(values, z); err != nil {
			return Noise{}, err
		}
		for i := range shape.area() {
			sum := 0.0
			for t, v := range values[i*shape.course():][:shape.course()] {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					return Noise{}, &ValueError{fmt.Sprintf("volume %d of the noise scan holds %g", t/shape.Parts(), v),
						shape.voxel(z, i), "finite numbers"}
				}
				sum += v * v
			}
			variance := sum / float64(shape.course())
			if magnitudes {
				variance /= 2
			}
			at := shape.voxel(z, i)
			all = append(all, patchNoise{[3]float64{float64(at[0]), float64(at[1]), float64(z)}, variance})
		}
	}
	return smooth(shape, patch, all), nil
}

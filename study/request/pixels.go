package request

import (
	"fmt"

	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/noise"
	"surepipe/internal/parallel"
	"surepipe/problems"
	"surepipe/problems/spec"
	"surepipe/risk/warning"
	"surepipe/study"
)

// noteChannels says that channels of an image are the same, so that their noise is, too, and reports whether it did.
func (r *Request) noteChannels(data problems.Data) bool {
	if shape := data.YShape; len(shape) != 3 || shape[2] < 2 || shape[2] > spec.MostChannels {
		return false
	}
	channels := data.YShape[2]
	for k := 1; k < channels; k++ {
		differ := false
		for at := 0; at < len(data.Y) && !differ; at += channels {
			differ = data.Y[at+k] != data.Y[at+k-1]
		}
		if !differ {
			r.note(study.NewNote(warning.EqualChannels, "channels %d and %d of y, counted from 0, are the same, and "+
				"their noise is: SURE, sigma2 and error bars take it for independent", k-1, k))
			return true
		}
	}
	return false
}

// notePixels says that an image or a sequence, or a part of one, was clipped, that its noise, or that of a matrix of
// low rank, is stronger in some of its parts or has outliers, and that the pixels of an image, or its channels, seem to
// share their noise, or that of neighbours is of opposite sign.
func (r *Request) notePixels(data problems.Data, sigma2 float64) {
	if r.Correlation != "" || !r.LossOf().Squared() {
		return
	}
	r.noteGain(data, sigma2)
	m, image := problems.ImageOf(r.Problem, data)
	y, sequence := problems.SequenceOf(r.Problem, data)
	var u noise.Uneven
	var known noise.Range
	switch {
	case image:
		r.noteCompressed(m, data.Depth)
		r.notePattern(m.Pattern())
		curved := data.Spec != nil && data.Spec.Curved()
		if !curved {
			u, known = m.Uneven(), m.Range()
		}
		if u.By == "" {
			at, share := m.Outliers()
			r.noteOutliers(m.Y, m.Shape, at, share, "put the median of their neighbours in the place of hot pixels")
			if at == nil && !curved {
				r.noteTails(m.HeavyTails())
			}
		}
	case sequence:
		serial, uneven := serialAndUneven(y)
		u = uneven
		if r.noteSerial(serial); serial == 0 {
			known = noise.RangeOfSequence(y)
		}
		if u.By == "" {
			at, share := noise.Outliers(y)
			r.noteOutliers(y, []int{len(y)}, at, share, "leave wrong values out (--missing drop estimates empty "+
				"ones)")
		}
	default:
		r.noteMatrix(data, sigma2)
		return
	}
	if share, at := noise.Clipped(data.Y); share > 0 {
		r.note(study.NewNote(warning.Clipped, "%.3g%% of the values of y are %.4g: they were clipped, or have "+
			"no noise, as under a mask, and sigma2, SURE and error bars take their noise for that of the others; "+
			"start from values that are not clipped, or crop", 100*share, at))
	}
	r.note(study.UnevenNotes(u)...)
	if u.By != "" {
		sigma2 = 0 // it is not that of the smoothest blocks
	}
	contradicted := r.contradicted(data, sigma2, known)
	r.note(contradicted...)
	if !image {
		return
	}
	if r.Estimate != nil || contradicted != nil {
		sigma2 = 0
	}
	s := m.Shared(sigma2)
	const smaller = "start from the raw image, or average blocks of pixels to a smaller one until this is not said"
	switch {
	case s.Neighbours && sigma2 > 0:
		r.note(study.NewNote(warning.CorrelatedPixels, "the smoothest parts of y hold a variance of %.3g at the "+
			"highest frequencies, and sigma2 is %.3g: neighbouring pixels share noise, which criteria and error bars "+
			"take for independent, or sigma2 is too large there; %s", s.High, sigma2, smaller))
	case s.Neighbours:
		r.note(study.NewNote(warning.CorrelatedPixels, "the smoothest parts of y hold %.2g times the energy at middle "+
			"frequencies that they hold at the highest ones: neighbouring pixels share noise, which criteria, sigma2 "+
			"from y and error bars take for independent, or fine texture is everywhere; %s", s.Middle/s.High, smaller))
	case s.Low != 0:
		r.note(study.NewNote(warning.CorrelatedPixels, "the smoothest parts of y hold %.2g times the energy at low "+
			"frequencies that they hold at high ones: the noise of neighbouring pixels is of opposite sign, as after "+
			"sharpening, so that sigma2 from y is too large, and SURE is wrong, or fine texture is everywhere; start "+
			"from the raw image", s.Low))
	case s.Channels != 0:
		r.note(study.NewNote(warning.CorrelatedPixels, "the noise of channels %d and %d, counted from 0, has a "+
			"correlation of %.2g, and criteria and error bars take it for independent; start from the raw image, or "+
			"denoise each channel alone", s.First, s.Second, s.Channels))
	}
}

// contradicted are the notes of a sigma2 that is far from the variance of the noise of an image or a sequence.
func (r *Request) contradicted(data problems.Data, sigma2 float64, known noise.Range) study.Notes {
	relStdErr := 0.0
	if r.Estimate != nil {
		relStdErr = r.Estimate.RelStdErr
	}
	of := "of the noise in the smoothest parts of y"
	switch {
	case data.Spec != nil && data.Spec.Counts(): // see noteGain
		return nil
	case len(data.YShape) < 2:
		of = "of the noise by the second differences of y"
	}
	return study.Sigma2Notes(sigma2, relStdErr, known, of)
}

// mostCounted is how many times the variance of transformed counts may be that of their noise.
const mostCounted = 1.7

// noteGain says that the noise of transformed counts is larger than that of counts, as of a camera that has a gain.
func (r *Request) noteGain(data problems.Data, sigma2 float64) {
	if data.Spec == nil || !data.Spec.Counts() {
		return
	}
	e, err := problems.EstimateSigma2(noise.MethodSmoothBlocks, r.Problem, data)
	if err == nil && e.Sigma2*(1-3*e.RelStdErr) > mostCounted*sigma2 {
		r.note(study.NewNote(warning.NotCounts, "the variance of the noise is %.3g in the smoothest parts of the "+
			"transformed counts, where that of counts is 1, and sigma2 is %.3g: y is a multiple of counts, or has "+
			"other noise besides, and SURE is wrong; divide y by its gain, the variance over the mean in an even "+
			"part", e.Sigma2, sigma2))
	}
}

// noteCompressed says that an image was a JPEG before it came into a file of another format.
func (r *Request) noteCompressed(m *noise.Image, depth problems.Depth) {
	if depth.Bits == 8 && !depth.Lossy && m.Compressed(1./255) {
		r.note(study.NewNote(warning.LossyImage, "y was compressed as JPEG before it was saved: coefficients of its "+
			"blocks of 8 x 8 pixels are multiples of some numbers, and sigma2 and SURE take its noise for white"))
	}
}

// notePattern says that noise is common to rows, to columns, or a wave.
func (r *Request) notePattern(p noise.Pattern) {
	if p.Of == "" {
		return
	}
	of := fmt.Sprintf("%ss of y have offsets", p.Of)
	if p.Of == noise.ByWave {
		of = fmt.Sprintf("a wave with a period of %.3g pixels lies over y", p.Period)
	}
	r.note(study.NewNote(warning.PatternedNoise, "%s, with %.2g times the variance of the noise of single pixels, as "+
		"of a sensor, or as rows of print have: criteria and error bars take them for noise where the fit removes "+
		"them, and for signal where it does not; subtract them before", of, p.Share))
}

// noteSerial says that the noise of neighbours in a sequence is correlated.
func (r *Request) noteSerial(ratio float64) {
	const differences = "second differences of y over two places have %.2g times the variance of those over one, "
	switch {
	case ratio > 1:
		r.note(study.NewNote(warning.Correlated, differences+"and those over four hardly more: neighbours share "+
			"noise, which criteria, error bars and an estimated sigma2 take for independent, so that the fit follows "+
			"it and its printed error is too small", ratio))
	case ratio > 0:
		r.note(study.NewNote(warning.Correlated, differences+"and of independent noise they have the same: the noise "+
			"of neighbours is of opposite sign, so that an estimated sigma2 is too large, and SURE too small", ratio))
	}
}

// noteTails says that the noise of an image has heavy tails.
func (r *Request) noteTails(ratio float64) {
	if ratio > 0 {
		r.note(study.NewNote(warning.Outliers, "the noise of y has heavy tails: by the median of its sizes its "+
			"variance is %.2g times the mean of its squares in the smoothest parts, where that of normal noise is the "+
			"same: SURE takes it for normal, so that the fit follows its outliers and the printed error is too "+
			"small", ratio))
	}
}

func (r *Request) noteOutliers(y []float64, shape, at []int, share float64, do string) {
	r.noteOutlying(y, shape, at, share, "their neighbours", "does not count them", do)
}

func (r *Request) noteOutlying(y []float64, shape, at []int, share float64, from, sigma2, do string) {
	if at != nil {
		r.note(study.NewNote(warning.Outliers, "%d of the values of y, the first %.4g at %s, stand out from %s by "+
			"more than five standard deviations, with %.2g times the variance of all other noise: sigma2 %s, and "+
			"criteria choose fits that follow them; %s", len(at), y[at[0]],
			ndarray.PlaceString(at[0], shape), from, share, sigma2, do))
	}
}

// serialAndUneven looks for both at the same time.
func serialAndUneven(y []float64) (serial float64, u noise.Uneven) {
	parallel.For(2, func(i int) {
		if i == 0 {
			serial = noise.Serial(y)
		} else {
			u = noise.UnevenSequence(y)
		}
	})
	return serial, u
}

// noteMatrix is notePixels for a matrix of low rank.
func (r *Request) noteMatrix(data problems.Data, sigma2 float64) {
	m, sparse, ok := problems.LowRankOf(r.Problem, data)
	if !ok {
		return
	}
	u, at, share := m.Uneven(sigma2)
	if r.note(study.UnevenNotes(u)...); !sparse {
		r.noteOutlying(data.Y, data.YShape, at, share, "what a low rank has there", "counts them for noise, or the "+
			"low rank does", "take a low rank plus a sparse matrix, --problem robust-pca, or leave these entries out, "+
			"as missing ones")
	}
}

package problems

import "surepipe/internal/dataio"

// pixels makes numbers in [0, 1] of y or mu where these are integers of an image or, in a numpy file,
// of an image's size; other arrays remain. Counts with Poisson noise stay the counts that they are.
func (l *specLoader) pixels(name string, p place, a *dataio.Array, line int) error {
	if name != "y" && name != "mu" {
		return nil
	}
	switch {
	case name == "y" && p.set.IsImage() && a.Depth.Bits == 1:
		return l.errorf(line, "%s: is an image of 1 bit, expected at least 8: black and white are no numbers with "+
			"normal noise", p.path)
	case l.noise != nil && l.noise.kind == NoiseAnscombe:
		if p.set.IsImage() {
			a.Levels()
		}
		a.Depth = dataio.Depth{}
		return nil
	case p.set.Format() == "npy" && (len(a.Shape) == 2 || len(a.Shape) == 3) && min(a.Shape[0], a.Shape[1]) > 1:
		a.ScaleToUnit()
	}
	if name == "y" && (p.set.IsImage() || a.Depth.Scaled) {
		l.image = true
	}
	return nil
}

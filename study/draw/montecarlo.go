package draw

import (
	"errors"
	"fmt"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/figure"
	"surepipe/study"
)

// MonteCarlo are the files of the figures of a Monte Carlo run, "" for none: the histogram of SURE, and the running
// mean of SURE - loss.
type MonteCarlo struct{ Histogram, Running string }

// Wanted reports whether there is a figure.
func (f MonteCarlo) Wanted() bool { return f != MonteCarlo{} }

// Save draws the figures of the samples.
func (f MonteCarlo) Save(s *study.Tally, o Origin) error {
	title, d := fmt.Sprintf("%s, d = %d", s.Problem, s.D), float64(s.D)
	if len(s.PerSample.SURE) == 0 && len(s.PerSample.GCV) == 0 && f.Wanted() {
		return errors.New("--plot and --running draw SURE or gcv, which are not defined for any sample: there is " +
			"no figure")
	}
	if f.Histogram != "" {
		h := figure.Histogram{
			Title: title, Label: "SURE / d", Samples: scaled(s.PerSample.SURE, 1/d),
			Seeds: scaled(s.PerSeed.SURE, 1/d),
			Loss:  scaled(s.PerSample.Loss, 1/d),
		}
		if len(s.PerSample.SURE) == 0 {
			h = figure.Histogram{Title: title, Label: "GCV", Samples: s.PerSample.GCV, Seeds: s.PerSeed.GCV}
		}
		if err := o.save(f.Histogram, h); err != nil {
			return err
		}
	}
	if f.Running == "" {
		return nil
	}
	r := figure.Running{Title: title, Label: "mean of SURE / d", Values: scaled(s.PerSample.SURE, 1/d)}
	if len(s.PerSample.SURE) == 0 {
		r = figure.Running{Title: title, Label: "mean of GCV", Values: s.PerSample.GCV}
	} else if len(s.PerSample.Error) > 0 {
		r = figure.Running{Title: title, Label: "mean of (SURE − loss) / d",
			Values: scaled(s.PerSample.Error, 1/d), Zero: "0, unbiased"}
	}
	return o.save(f.Running, r)
}

// scaled is a x, and nil for nil.
func scaled(x []float64, a float64) []float64 {
	return append([]float64(nil), floats.ScaleTo(make([]float64, len(x)), a, x)...)
}

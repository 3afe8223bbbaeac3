package request

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/internal/noise"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/risk/warning"
	"surepipe/stages"
	"surepipe/study"
	"surepipe/study/load"
	"surepipe/verify"
	"surepipe/vjp"
)

// Open makes the estimator on devices, which it takes. Multiples of the largest weight refer to y of the data.
func (r *Request) Open(ctx context.Context, devices []array.Device, data problems.Data) (*study.Estimator, error) {
	if r.Program.Given() {
		return r.openProgram(devices, data)
	}
	sigma2, hyper, err := r.prepare(ctx, devices[0], &data)
	if err != nil {
		Close(devices)
		return nil, err
	}
	o := study.Options{
		Problem: r.Problem, Own: r.Own, Data: data, Hyper: hyper, Devices: devices, Solver: r.Solver.Name,
		Settings: func(on array.Device) (vjp.Options, error) { return r.settings(on, sigma2) },
		Pipeline: r.Pipeline(data, sigma2), Variance: r.Estimate, InData: r.inData,
		Check: func(d int) error { return r.checkScale(data, sigma2, d) }, Lost: r.Watch.Lost,
	}
	j, err := study.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	if err = stages.Guard(func() error { return r.checkOpen(j) }); err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

// prepare settles the weights and sigma2, which it sets in the data: 0 stands for a variance that is not
// known.
func (r *Request) prepare(ctx context.Context, dev array.Device, data *problems.Data) (sigma2 float64,
	hyper problems.Hyper, err error) {
	// The noise of values at places is looked at by all places. Samples of another length have a message of their own.
	if r.Own == nil && data.Indices != nil && len(data.Indices) == len(data.Y) {
		if err := problems.Check(r.Problem, *data); err != nil {
			return 0, hyper, err
		}
	}
	r.forgetNoise(data)
	r.noteCounts(*data)
	if hyper, err = r.Weights.hyper(); err != nil {
		return 0, hyper, err
	}
	if r.Fits {
		if err := r.varianceOfFits(ctx, dev, hyper, data); err != nil {
			return 0, hyper, err
		}
	}
	if r.Correlation != "" {
		if err := r.correlate(data); err != nil {
			return 0, hyper, err
		}
	}
	if sigma2, err = r.variance(*data); sigma2 > 0 {
		data.Sigma2 = &sigma2 // some regularizers depend on it
		r.noteRounding(data.Y, sigma2)
	}
	if err == nil && !r.noteChannels(*data) {
		r.notePixels(*data, sigma2)
	}
	return sigma2, hyper, err
}

// Pipeline are the options of the risk.
func (r *Request) Pipeline(data problems.Data, sigma2 float64) pipeline.Options {
	o := pipeline.Options{
		Sigma2: sigma2, Parallel: r.Machine.Parallel, Batch: r.Machine.ProbeBatch, Logger: r.Watch.Logger,
		Progress: r.Watch.Progress,
		KeepB:    r.Keep.B || r.Intercept || data.Effects.Some(),
		// Of entries the errors at those that are left out tell of uneven noise, which are kept with mu_hat.
		NoMuHat:   r.Keep.NoMuHat && data.Mu == nil && data.Indices == nil,
		KeepGoing: r.Keep.Going,
	}
	r.Trace.Options(&o)
	o.Noise = r.noise
	if r.Folds.Groups != nil || r.Folds.Blocks > 0 {
		o.LeaveOut = &r.Folds
	}
	if r.Verify {
		o.Verify = &verify.Options{}
	}
	return o
}

// varianceOfFits estimates sigma2 from fits along a path of lambda, and sets it in the data.
func (r *Request) varianceOfFits(ctx context.Context, dev array.Device, hyper problems.Hyper,
	data *problems.Data) (err error) {
	fits := load.Fits{Device: dev, Hyper: hyper, Solver: r.Solver.Name,
		Check: func(d int) error { return r.checkScale(*data, 0, d) }}
	if fits.Settings, err = r.settings(dev, 0); err != nil {
		return err
	}
	r.Trace.Options(&fits.Options.Options)
	fits.Options.ALO = false
	fits.Options.Parallel, fits.Options.Batch = r.Machine.Parallel, r.Machine.ProbeBatch
	fits.Options.Progress = r.Watch.Progress
	estimate, note, err := r.VarianceOfFits(ctx, *data, fits)
	if err != nil {
		return err
	}
	r.Estimate, data.Sigma2 = &estimate, &estimate.Sigma2
	r.note(note)
	return nil
}

// forgetNoise drops the sigma2 of the data where the loss is not squared.
func (r *Request) forgetNoise(data *problems.Data) {
	if data.Sigma2 == nil || r.LossOf().Squared() {
		return
	}
	data.Sigma2, r.Estimate = nil, nil
	r.note(study.NewNote(warning.Sigma2Unused, "%s has sigma2, which the %s loss has no use for: SURE is for the "+
		"squared loss, and leave-one-out takes its place", r.Name(), r.LossOf().Name))
}

// coarsest is the step of rounding, over sigma, up to which an estimate of sigma2 sees the noise and not the steps.
const coarsest = 2

// noteRounding says that y is rounded so coarsely that sigma2, as given, moves SURE by more than its error bar without
// the variance of the rounding, or that an estimate of sigma2 is one of the steps.
func (r *Request) noteRounding(y []float64, sigma2 float64) {
	step := noise.RoundingStep(y)
	if r.Estimate != nil {
		if step > coarsest*math.Sqrt(sigma2) {
			r.note(study.NewNote(warning.CoarseRounding, "the values of y are multiples of %.6g, more than twice the "+
				"standard deviation of the noise by its estimate, sigma2 = %.6g: errors of rounding are no noise "+
				"then, and SURE and error bars take them for such; start from values that are not rounded, or compare "+
				"--criterion cv", step, sigma2))
		}
		return
	}
	if v := noise.RoundingVariance(step); v > sigma2*math.Sqrt(2/float64(len(y))) {
		r.note(study.NewNote(warning.CoarseRounding, "the values of y are multiples of %.6g: rounding adds about %.3g "+
			"to the variance of the noise, which sigma2 = %.6g must include", step, v, sigma2))
	}
}

// noteCounts says that y are no counts where the loss is one of counts.
func (r *Request) noteCounts(data problems.Data) {
	kind, err := r.LossOf().Kind()
	if err != nil || !kind.Counts {
		return
	}
	broken, first, of := 0, "", ""
	for i, y := range data.Y {
		if data.Weights != nil {
			y *= data.Weights[i]
			of = ", times their weights,"
		}
		if math.Abs(y-math.Round(y)) > leastFraction*math.Max(y, 1) {
			if broken++; broken == 1 {
				if first = fmt.Sprintf("%.6g", data.Y[i]); of != "" {
					first = fmt.Sprintf("%s times %.6g", first, data.Weights[i])
				}
			}
		}
	}
	if broken > 0 {
		r.note(study.NewNote(warning.NotCounts, "%d of %d values of y%s are no counts, such as %s: their variance is "+
			"not their mean as the %s loss has it, so that AIC and BIC are not those of a likelihood", broken,
			len(data.Y), of, first, kind.Name))
	}
}

// checkOpen checks what is known of an estimator once it is open: a sequence, and products of one's own operator.
func (r *Request) checkOpen(j *study.Estimator) error {
	if err := r.checkSequence(j); err != nil || r.Own == nil {
		return err
	}
	if what := r.Own.Mismatch(j.On); what != "" {
		r.note(study.NewNote(warning.Mismatch, "for random vectors %s: the estimate and its divergence are not to be "+
			"trusted; linopstest.Check looks for what is wrong", what))
	}
	return nil
}

// leastFraction is the distance from a whole number, relative to it, that rounding errors explain.
const leastFraction = 1e-9

func (r *Request) note(notes ...study.Note) {
	if r.Watch.Note == nil {
		return
	}
	for _, n := range notes {
		r.Watch.Note(n)
	}
}

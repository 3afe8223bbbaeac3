package request

import (
	"context"
	"io"

	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/study"
	"surepipe/study/load"
)

// Many is where many y come from: the file Y, "-" for In; or with neither the data, as a stack or around mu.
type Many struct {
	Y  string
	In io.Reader
}

// Hash is that of a file of samples, "" where there is none.
func (m *Many) Hash(ctx context.Context) (string, error) {
	if m == nil || m.Y == "" {
		return "", nil
	}
	return study.FileHash(ctx, m.Y)
}

// ReadSamples opens the samples of [Request.Many] and reads the rest of the data. Multiples of a maximum refer to Y of
// the data. The data are returned with an error too, for what reading them has found.
func (r *Request) ReadSamples(ctx context.Context) (*study.SampleSource, load.Contents, error) {
	if row := pipeline.BlackBoxMethod(r.Program.Divergence).Row(); row.Counts {
		return nil, load.Contents{}, study.Errorf("--divergence is %s, which is for one y of counts: a run over "+
			"many has normal noise", row.Name)
	}
	if r.Many.Y == "" {
		return r.samplesOfData(ctx)
	}
	ys, err := study.OpenSamples(r.Many.Y, r.Many.In)
	if err != nil {
		return nil, load.Contents{}, err
	}
	r.Y = ys.Name
	file, err := r.ReadAround(ctx, ys)
	r.Variance = file.Variance
	if err == nil && coloured(file.Data) {
		err = r.whitenedOnly()
	}
	if err != nil {
		ys.Close()
		return nil, file, err
	}
	return ys, file, nil
}

// samplesOfData are the samples that the data hold, or that are simulated around their mu.
func (r *Request) samplesOfData(ctx context.Context) (*study.SampleSource, load.Contents, error) {
	file, err := r.Source.ReadSamples(ctx)
	r.Variance = file.Variance
	refuse := func(format string, args ...any) (*study.SampleSource, load.Contents, error) {
		return nil, file, study.Errorf(format, args...)
	}
	sigma2 := r.Noise(file.Data)
	switch l := r.LossOf(); {
	case err != nil:
		return nil, file, err
	case file.Stack != nil && coloured(file.Data):
		return nil, file, r.whitenedOnly()
	case file.Stack != nil:
		return study.HeldSamples(r.Name(), file.Stack, file.YShape), file, nil
	case !l.Squared():
		return refuse("%s: samples are simulated around mu with normal noise, which the %s loss is not for: expected "+
			"a stack of samples (N x ...)", r.Name(), l.Name)
	case file.Mu == nil:
		return refuse("%s: \"y\" is one sample and there is no \"mu\" to simulate more from; expected a stack of "+
			"samples (N x ...) or mu", r.Name())
	case r.Fits:
		return refuse("--sigma2 is %s, which takes fits to %s: to simulate samples, give sigma2 as a number",
			r.Sigma2Method, r.Name())
	case sigma2 == 0 && file.Sigma2 == nil:
		return refuse("--sigma2 is missing and %s holds no sigma2: to simulate samples around mu, give the variance "+
			"of the noise", r.Name())
	}
	// Weights relative to a maximum refer to a y that is not among the samples.
	if sigma2 > 0 && len(file.Mu) == len(file.Y) {
		file.Y = problems.Sample(file.Mu, sigma2, r.Trace.Seed, -1)
	}
	return study.Simulated(file.Mu, file.YShape, sigma2, r.Trace.Seed), file, nil
}

// coloured reports whether y is whitened before it is fitted.
func coloured(data problems.Data) bool { return data.Spec != nil && data.Spec.Noise() != "" }

func (r *Request) whitenedOnly() error {
	return study.Errorf("%s: a stack of samples and a specification with noise, which whitens only a single y: "+
		"expected mu, to simulate samples from", r.Name())
}

package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/stat"

	"surepipe/internal/dataio"
	"surepipe/internal/noise"
	"surepipe/problems"
	"surepipe/problems/spec"
	"surepipe/risk/warning"
	"surepipe/study"
)

// Read reads the files of the source: a specification and its files, or the arrays that the
// problem needs, from files of any format. It estimates
// sigma2 by Sigma2Method. Every
// error is bad input and names the file.
func (f *Source) Read(ctx context.Context) (Contents, error) { return f.read(ctx, nil, false) }

// ReadAround reads all of the problem's data except y, which comes from a stack of samples in the file Y.
func (f *Source) ReadAround(ctx context.Context, s *study.SampleSource) (Contents, error) {
	return f.read(ctx, s, false)
}

// ReadSamples is [Source.Read] for many samples: y may have one more leading axis, or be missing where
// there is a mean to simulate samples around.
func (f *Source) ReadSamples(ctx context.Context) (Contents, error) {
	if strings.Contains(f.Table.Response, ",") {
		return Contents{}, study.Errorf("--response names several columns, %q, and samples have one y: several "+
			"responses are for surepipe run and sweep", f.Table.Response)
	}
	return f.read(ctx, nil, true)
}

func (f *Source) read(ctx context.Context, samples *study.SampleSource, many bool) (data Contents, err error) {
	f.ctx = ctx
	files := problems.SpecFiles{Context: f.ctx, FS: f.Files, Data: f.Data, Table: f.tableOptions(), Parsed: f.table,
		X: f.X, Y: f.Y, Mu: f.Mu, D: f.D, Stored: f.storedX, Many: many, Columns: f.columns() || f.several,
		Joint: f.columns(), Grouped: f.ColumnGroups != ""}
	if samples != nil {
		first, err := samples.At(0)
		switch {
		case err != nil:
			return Contents{}, err
		case f.Specification == nil && f.Table.Response != "":
			return Contents{}, study.Errorf("--response is %q, but y comes from --y", f.Table.Response)
		}
		files.Sample = &dataio.Array{Name: "y", Shape: samples.Shape, Data: first}
	}
	s, err := f.specification()
	if err == nil {
		data.Data, err = s.Load(files)
	}
	if err != nil {
		return Contents{}, f.tableError(err)
	}
	f.vary(&data.Data)
	if err := f.named(&data.Data); err != nil {
		return Contents{}, err
	}
	if data.Table != nil {
		data.Observed = data.Table.Beside
	}
	if f.several && len(data.YShape) == 2 {
		return data, nil
	}
	return data, f.complete(&data)
}

// named gives the columns of X, or of a matrix without one, their names.
func (f *Source) named(data *problems.Data) error {
	if f.Names == nil {
		return nil
	}
	p := 0
	switch {
	case data.X != nil:
		_, p = data.X.Dims()
	case len(data.Shape) == 2:
		p = data.Shape[1]
	case len(data.YShape) == 2:
		p = data.YShape[1]
	}
	if p != len(f.Names) {
		return study.Errorf("columns has %d names, expected %d, one for each column of X", len(f.Names), p)
	}
	data.Columns = f.Names
	return nil
}

// specification is that of the source, or else of its problem.
func (f *Source) specification() (*problems.Spec, error) {
	switch {
	case f.Specification != nil:
		return f.Specification, nil
	case f.Command:
		return spec.OfAnyShape(), nil
	}
	if l, _ := LayoutOf(f.Problem); !l.Design && f.X != "" {
		return nil, study.Errorf("--X is %q, but %s has no design matrix", f.X, f.Problem)
	}
	return problems.SpecOf(f.Problem)
}

func (f *Source) complete(data *Contents) (err error) {
	if err := f.coordinates(data); err != nil {
		return err
	}
	if data.Observed != nil {
		if err := f.observe(data, data.Observed); err != nil {
			return f.InFile(err)
		}
	}
	if err := f.classify(data); err != nil {
		return f.InFile(err)
	}
	if f.LossOf().Row().Transforms {
		data.Mu = nil // mu_hat is not an estimate of it
	}
	if err := f.standardize(data); err != nil {
		return f.InFile(err)
	}
	if err := f.chooseEffects(data); err != nil {
		return f.InFile(err)
	}
	if err := f.scan(data); err != nil {
		return err
	}
	if data.Together, err = f.groups(data); err != nil {
		return err
	}
	if err := opaque(data.Y, data.YShape); err != nil {
		return f.InFile(err)
	}
	return f.estimateNoise(data)
}

// opaque refuses an image of two or four channels of which the last alone is the greatest value of pixels everywhere,
// as the alpha channel of opaque pixels is: it holds no noise. Another value may be that of a band that was not
// measured, or of a column of a series.
func opaque(y []float64, shape []int) error {
	if len(shape) != 3 || shape[2] != 2 && shape[2] != 4 {
		return nil
	}
	n, varies := shape[2], false
	if len(y) < n || y[n-1] != 1 && y[n-1] != math.MaxUint8 && y[n-1] != math.MaxUint16 {
		return nil
	}
	for i := 0; i < len(y); i += n {
		if varies = varies || y[i] != y[0]; y[i+n-1] != y[n-1] {
			return nil
		}
	}
	if !varies {
		return nil
	}
	return fmt.Errorf("channel %d of y, counted from 0, is %g everywhere, as an alpha channel is where all pixels are "+
		"opaque: it holds no noise, and SURE would count it; leave it out, as y[..., :%d] in Python", n-1, y[n-1], n-1)
}

// estimateNoise estimates sigma2 where the flags or the specification ask for it, from a stack by
// its first sample.
func (f *Source) estimateNoise(data *Contents) error {
	data.Variance = Variance{}
	if f.Sigma2Method == "" {
		return nil
	}
	if data.Simulated {
		return study.Errorf("--sigma2 is %s, but %s holds no y to estimate it from: to simulate samples, give "+
			"sigma2 as a number", f.Sigma2Method, f.Name())
	}
	estimate, err := f.estimator(data.Data)
	if errors.Is(err, problems.ErrNeedsFits) {
		data.Fits, data.Sigma2 = true, nil
		return nil
	}
	if err != nil {
		return f.InFile(err)
	}
	data.Estimate, data.Sigma2 = &estimate, &estimate.Sigma2
	return nil
}

func (f *Source) estimator(data problems.Data) (noise.Estimate, error) {
	if f.Command {
		return noise.Choose(f.Sigma2Method, noise.Observed{Y: data.Y, Shape: data.YShape, Bare: true})
	}
	return problems.EstimateSigma2(f.Sigma2Method, f.Problem, data)
}

// noteIntercept notes that a regression has no intercept, nor a constant column of X, although the mean of y is far
// from 0.
func (f *Source) noteIntercept(n *study.Notes, data problems.Data, spread func() (means, deviations []float64)) {
	if l, _ := LayoutOf(f.Problem); !l.Design || f.Specification != nil || f.Intercept || !f.Loss.Squared() {
		return
	}
	mean, sd := stat.MeanStdDev(data.Y, nil)
	if !(math.Abs(mean) > 3*sd/math.Sqrt(float64(len(data.Y)))) {
		return
	}
	means, deviations := spread()
	for j, v := range deviations {
		if v == 0 && means[j] != 0 {
			return
		}
	}
	n.Add(warning.NoIntercept, "y has mean %.3g and no column of X is constant: without an intercept the fit "+
		"and sigma2 are poor; --intercept fits one", mean)
}

// Name names the input for errors.
func (f *Source) Name() string {
	return cmp.Or(f.Spec, f.Data, f.Y, f.X, f.Mu)
}

// InFile names the file of an error: that of the array which the error begins with, where a flag gives it,
// or else the input.
func (f *Source) InFile(err error) error {
	var array string
	fmt.Sscanf(err.Error(), "array %q", &array)
	own := map[string]string{"X": f.X, "y": f.Y, "mu": f.Mu, "D": f.D}[array]
	if own == "" && array != "" && f.Spec == "" {
		own = f.Data
	}
	return study.Errorf("%s: %w", cmp.Or(own, f.Name()), err)
}

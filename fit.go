package surepipe

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"slices"
	"sync"

	"surepipe/internal/dataio"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/stages"
	"surepipe/study"
	"surepipe/study/draw"
	"surepipe/study/predict"
)

// Types of the packages below that stand here too. Their JSON is the command's, in both directions.
type (
	// Result are the numbers of an estimate, as surepipe run --json prints them.
	Result = study.Result
	// Coefficients are those of a regression by name, with their errors, in the units of the columns.
	Coefficients = study.CoefficientsResult
	// Prediction is what a fit predicts, and what is known of its error.
	Prediction = predict.Prediction
)

// Fit is an estimate at y. In JSON it is its Result.
type Fit struct {
	Result
	of   *Estimator
	job  *study.Estimator
	risk pipeline.Risk

	// notes are on what was written of it; projected and loss are completions of the result.
	notes     []Warning
	projected study.ProjectedResult
	loss      *float64

	once  sync.Once
	model *Model
	err   error
}

// fill sets the result.
func (f *Fit) fill() {
	f.Result = f.job.Result()
	f.Warnings = append(f.of.warnings(f.job), f.notes...)
	f.Fill(f.job.Problem, f.risk, f.of.data.Mu)
	f.StorageResult, f.ProjectedResult, f.SignalLoss = study.StorageOf(f.job.Problem), f.projected, f.loss
}

// note tells of a note, and keeps it for the result.
func (f *Fit) note(n study.Note) {
	w := &f.of.request.Watch
	f.notes = append(f.notes, Warning{Code: n.Code, Text: w.Text(n.Text)})
	if f.of.told != nil {
		f.of.told(n)
	}
}

// Estimator is that of the fit.
func (f *Fit) Estimator() *Estimator { return f.of }

// Risk is what the packages below know of the estimate.
func (f *Fit) Risk() pipeline.Risk { return f.risk }

// Project estimates the risk of the image itself, in what the operator sees, by projected SURE, into the result: it
// solves once more.
func (f *Fit) Project(ctx context.Context) error {
	_, err := use(ctx, f.of, func() (any, error) {
		if err := f.job.CheckProjected(); err != nil {
			return nil, err
		}
		p, notes, err := f.job.Projected(ctx, f.of.data.Y, f.of.data.Mu, f.of.request.Trace.Seed)
		if err != nil {
			return nil, err
		}
		for _, n := range notes {
			f.note(n)
		}
		f.projected = p
		f.fill()
		return nil, nil
	})
	return err
}

// Draw draws data, estimate, residual, and where they are known the truth and the error, as surepipe run --picture
// does, and takes the loss of the signal into the result.
func (f *Fit) Draw(p *draw.Picture, o draw.Origin) (err error) {
	if err := f.of.begin(); err != nil {
		return err
	}
	defer f.of.work.Done()
	r := f.of.request
	f.loss, err = p.Save(f.job.Problem, f.of.data.Data, f.risk, f.Result, cmp.Or(r.Data, r.Y, r.Name()),
		f.of.data.Depth.IsImage(), o)
	f.SignalLoss = f.loss
	return err
}

// Array is an array of numbers, row-major; with Complex the last axis is the real and imaginary part.
type Array struct {
	Shape   []int
	Data    []float64
	Complex bool
}

// MuHat is the estimate of the mean of y, or with a loss that is not squared the linear predictor.
func (f *Fit) MuHat() Array {
	p := f.job.Problem
	return arrayOf(study.Presented(p, dataio.Array{Shape: p.MuShape, Data: study.MuHat(f.of.data.Data, f.risk),
		Complex: p.MuComplex}))
}

func arrayOf(a dataio.Array) Array { return Array{a.Shape, a.Data, a.Complex} }

// Image is what is looked for: the signal where the data are measurements of one, else mu_hat.
func (f *Fit) Image() (Array, error) {
	a, err := f.image()
	return arrayOf(a), err
}

// image is that array, with the names of its rows and columns.
func (f *Fit) image() (a dataio.Array, err error) {
	if err := f.of.begin(); err != nil {
		return a, err
	}
	defer f.of.work.Done()
	p := f.job.Problem
	a = dataio.Array{Name: "mu_hat", Shape: p.MuShape, Data: study.MuHat(f.of.data.Data, f.risk), Complex: p.MuComplex}
	switch {
	case p.Signal != nil:
		if a, err = study.Synthesize(p, f.risk.DenseB()); err != nil {
			return a, err
		}
	case p.Original != nil:
		a.Data = slices.Clone(a.Data)
		p.Original(a.Data)
	}
	return study.Labelled(study.Presented(p, a), f.of.data.Labels), nil
}

// WriteImage writes [Fit.Image] in the format of the name's extension: .png, .jpg, .tif, .npy, .csv, ... The
// warnings are what the format cannot hold.
func (f *Fit) WriteImage(w io.Writer, name string) ([]Warning, error) {
	format, ok := dataio.FormatFor(name)
	if !ok || format.Write == nil {
		return nil, study.Errorf("the name is %q, expected one that ends in %s", name,
			dataio.Extensions(dataio.Written()))
	}
	a, err := f.image()
	if err != nil {
		return nil, err
	}
	if err := draw.CheckShape(format, name, a.Name, a.Shape, f.job.Problem.Frames != nil, a.Complex); err != nil {
		return nil, err
	}
	before := len(f.notes)
	if p := f.job.Problem; p.Signal == nil && p.Original == nil && !linops.StructureOf(p.Operator).Identity {
		f.note(study.NewNote(study.NoteMuHatAlone, "%s holds only mu_hat; for b as well, give --out a name that ends "+
			"in .npz", name))
	}
	clamped, err := format.Write(w, a, f.of.data.Depth, draw.EightBit(f.of.data.Y))
	if err == nil && clamped > 0 {
		f.note(study.NewNote(study.NoteClamped, "%s", draw.ClampedText(name, clamped, len(a.Data))))
	}
	f.fill() // with the notes
	return f.notes[before:], err
}

// Coefficients are those of a regression, with debiased estimates and their errors where these are defined.
func (f *Fit) Coefficients(ctx context.Context) (Coefficients, error) {
	if p := f.job.Problem; !p.Rows() {
		return Coefficients{}, study.Errorf("--coefficients is for regressions, whose operator is a matrix of the "+
			"data, found %s", p.Name)
	}
	return use(ctx, f.of, func() (Coefficients, error) {
		return study.CoefficientsOf(ctx, f.job.Problem, f.of.data.Data, f.risk, f.job.Sigma2)
	})
}

// Model is the part of the fit that predicts. It outlives the estimator.
func (f *Fit) Model() (*Model, error) {
	f.once.Do(func() {
		if f.err = f.of.begin(); f.err != nil {
			return
		}
		defer f.of.work.Done()
		f.err = stages.Guard(func() error {
			fit, err := study.FitOf(f.job.Problem, f.of.data.Data, f.risk, f.Result, f.of.request.CommandLine)
			if err == nil {
				f.model, err = modelOf(fit)
			}
			return err
		})
	})
	return f.model, f.err
}

// Predict predicts new rows of a regression, or entries of a matrix; without data all that were not observed.
func (f *Fit) Predict(ctx context.Context, d Data) (*Prediction, error) {
	m, err := f.Model()
	if err != nil {
		return nil, err
	}
	return m.Predict(ctx, d)
}

// WriteTo writes the fit as surepipe run --out fit.npz does.
func (f *Fit) WriteTo(w io.Writer) (int64, error) {
	m, err := f.Model()
	if err != nil {
		return 0, err
	}
	return m.WriteTo(w)
}

// Model is a fit that predicts. It needs no estimator, and is safe for concurrent use.
type Model struct {
	fit     *study.Fit
	predict *predict.Model
}

func modelOf(f *study.Fit) (*Model, error) {
	m, err := predict.New(f)
	return &Model{f, m}, err
}

// ReadFit reads a fit that [Fit.WriteTo] or the command has written.
func ReadFit(r io.Reader) (*Model, error) {
	if r == nil {
		return nil, study.Errorf("the reader of the fit is nil, expected one")
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	f, err := study.ReadFit(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		return nil, err
	}
	return modelOf(f)
}

// Predict is [Fit.Predict].
func (m *Model) Predict(ctx context.Context, d Data) (*Prediction, error) {
	return call(ctx, func() (*Prediction, error) {
		name := d.data
		if d.x != "" {
			name = d.x
		}
		return m.predict.Predict(ctx, d.files, name, nil)
	}, nil)
}

// WriteTo is [Fit.WriteTo].
func (m *Model) WriteTo(w io.Writer) (int64, error) {
	c := &counted{Writer: w}
	err := m.fit.Write(c)
	return c.n, err
}

// counted counts what is written.
type counted struct {
	io.Writer
	n int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n += int64(n)
	return n, err
}

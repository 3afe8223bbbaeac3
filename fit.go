package surepipe

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"slices"
	"strconv"
	"sync"

	"surepipe/internal/dataio"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/risk/warning"
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
	// Array is an array of numbers, row-major; with Complex the last axis is the real and imaginary part.
	Array = study.Array
)

// Fit is an estimate at y. In JSON it is its Result.
type Fit struct {
	Result
	of   *Estimator
	job  *study.Estimator
	risk pipeline.Risk

	diagnostics *study.Diagnostics
	// swept is the sweep that has chosen its weights, nil where they are the estimator's.
	swept *study.Swept
	// notes is how many of the warnings are on the data and on what was written, before those on the estimate.
	notes int

	once  sync.Once
	model *Model
	err   error
}

func fitOf(ctx context.Context, e *Estimator, risk pipeline.Risk) *Fit {
	f := &Fit{Result: e.job.Result(), of: e, job: e.job, risk: risk,
		diagnostics: study.Diagnose(ctx, e.job.Problem, e.data.Data, risk)}
	f.Warnings = e.warnings(e.job)
	f.notes = len(f.Warnings)
	f.Fill(e.job.Problem, risk, e.data.Mu)
	f.StorageResult = study.StorageOf(e.job.Problem)
	return f
}

func chosen(e *Estimator, job *study.Estimator, r *study.Swept) *Fit {
	f := &Fit{Result: r.Lines[r.Summary.Chosen.Index].Result, of: e, job: job, risk: r.Chosen.Risk,
		diagnostics: r.Diagnostics, swept: r, notes: len(r.Template.Warnings)}
	f.Audits = r.Summary.Audits
	if f.risk.HasB() { // its line does not have the intercept
		f.InterceptResult = study.InterceptOf(job.Problem, f.risk)
	}
	return f
}

func (f *Fit) tell(notes study.Notes) {
	for _, n := range notes {
		w := Warning{Code: n.Code, Text: f.of.request.Watch.Text(n.Text)}
		f.Warnings = slices.Insert(slices.Clone(f.Warnings), f.notes, w)
		if f.notes++; f.of.told != nil {
			f.of.told(n)
		}
	}
}

func (f *Fit) at(ctx context.Context) (*study.Estimator, error) {
	if f.swept == nil {
		return f.job, nil
	}
	r := *f.of.request
	for a, axis := range f.swept.Axes {
		*r.Weights.Named()[axis.Name] = strconv.FormatFloat(f.swept.Chosen.Weights[a], 'g', -1, 64)
	}
	return f.of.at(ctx, &r, nil)
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
		job, err := f.at(ctx)
		if err != nil {
			return nil, err
		}
		p, notes, err := job.Projected(ctx, f.of.data.Y, f.of.data.Mu, f.of.request.Trace.Seed)
		if err == nil {
			f.tell(notes)
			f.ProjectedResult = p
		}
		return nil, err
	})
	return err
}

// Audit compares what leave-one-out or GCV says of some observations, a random twentieth a fit or whole groups, blocks
// and runs, with fits without them, into the result: a few fits, which start at this one. A warning says where the
// criterion is off by more than three bars.
func (f *Fit) Audit(ctx context.Context) ([]*pipeline.Audit, error) {
	return use(ctx, f.of, func() ([]*pipeline.Audit, error) {
		var axes []study.Axis
		var weights []float64
		o, err := f.of.request.AuditOptions(f.job, f.of.data.Data)
		if s := f.swept; s != nil {
			axes, weights, o, err = s.Axes, s.Chosen.Weights, s.Options, nil
		}
		if err != nil {
			return nil, err
		}
		all, err := f.job.Audit(ctx, axes, weights, f.of.data.Y, f.risk, o)
		if err == nil {
			f.tell(study.AuditNotes(all))
			f.Audits = all
		}
		return all, err
	})
}

// Draw draws data, estimate, residual, and where they are known the truth and the error, as surepipe run --picture
// does, and takes the loss of the signal into the result.
func (f *Fit) Draw(p *draw.Picture, o draw.Origin) (err error) {
	if err := f.of.begin(); err != nil {
		return err
	}
	defer f.of.work.Done()
	r := f.of.request
	f.SignalLoss, err = p.Save(f.job.Problem, f.of.data.Data, f.risk, f.Result, cmp.Or(r.Data, r.Y, r.Name()),
		f.of.data.Depth.IsImage(), o)
	return err
}

// MuHat is the estimate of the mean of y, or with a loss that is not squared the linear predictor.
func (f *Fit) MuHat() Array {
	p := f.job.Problem
	return arrayOf(study.Presented(p, dataio.Array{Shape: p.MuShape, Data: study.MuHat(f.of.data.Data, f.risk),
		Complex: p.MuComplex}))
}

// B is the solution, of a regression in the units of the columns. It is empty of a matrix that is held by its factors.
func (f *Fit) B() Array {
	b, _ := study.Solution(f.job.Problem, f.risk)
	return arrayOf(b)
}

func arrayOf(a dataio.Array) Array {
	return Array{Shape: a.Shape, Data: a.Data, Complex: a.Complex}
}

// Image is what is looked for: the signal where the data are measurements of one, else mu_hat.
func (f *Fit) Image() (Array, error) {
	a, err := f.image()
	return arrayOf(a), err
}

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
	before := f.notes
	if p := f.job.Problem; p.Signal == nil && p.Original == nil && !linops.StructureOf(p.Operator).Identity {
		f.tell(study.Notes{study.NewNote(warning.MuHatAlone, "%s holds only mu_hat; for b as well, give --out a "+
			"name that ends in .npz", name)})
	}
	clamped, err := format.Write(w, a, f.of.data.Depth, draw.EightBit(f.of.data.Y))
	if err == nil && clamped > 0 {
		f.tell(study.Notes{study.NewNote(warning.PixelsClamped, "%s", draw.ClampedText(name, clamped, len(a.Data)))})
	}
	return slices.Clone(f.Warnings[before:f.notes]), err
}

// Coefficients are those of a regression, with debiased estimates and their errors where these are defined.
func (f *Fit) Coefficients(ctx context.Context) (Coefficients, error) {
	if p := f.job.Problem; !p.Rows() {
		return Coefficients{}, study.Errorf("--coefficients is for regressions, whose operator is a matrix of the "+
			"data, found %s", p.Name)
	}
	return use(ctx, f.of, func() (Coefficients, error) {
		c, err := f.diagnostics.Coefficients(ctx, f.job.Sigma2)
		if told := slices.ContainsFunc(f.Warnings, func(w Warning) bool { return w.Is(warning.Selected) }); !told {
			f.tell(c.Notes())
		}
		return c, err
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
		return m.predict.Predict(ctx, d.files, name, d.na)
	}, nil)
}

// WriteTo is [Fit.WriteTo].
func (m *Model) WriteTo(w io.Writer) (int64, error) {
	c := &counted{Writer: w}
	err := m.fit.Write(c)
	return c.n, err
}

type counted struct {
	io.Writer
	n int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n += int64(n)
	return n, err
}

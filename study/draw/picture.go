package draw

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/digits"
	"surepipe/internal/figure"
	"surepipe/internal/lists"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/study"
)

// Picture is a figure of the data and the estimate as images, and the comparison with a true signal.
type Picture struct {
	Path  string // "" for no figure
	Truth string // the file of the true signal, "" for none
	Frame int    // of a series; [NoFrame] for the one in the middle

	signal *dataio.Array // the true signal, once it is read
}

// NoFrame stands for the image in the middle of a series.
const NoFrame = -1

// Wanted reports whether the estimate is drawn or compared with a truth.
func (g *Picture) Wanted() bool { return g.Path != "" || g.Truth != "" }

// Check reads the truth, and rejects a problem whose arrays are no images.
func (g *Picture) Check(p *problems.Problem) error {
	if g.Truth != "" {
		if err := g.readTruth(p); err != nil {
			return err
		}
	}
	if g.Path == "" {
		return nil
	}
	at, of := newView(study.ShapeOut(p, p.MuShape), p.MuComplex), "y"
	if p.Signal != nil {
		at, of = newView(study.ShapeOut(p, p.SignalShape), p.SignalComplex), "the signal"
	}
	switch {
	case p.Several() > 0:
		return study.Errorf("--picture needs a sequence, an image, a matrix or a series of images, and y has " +
			"a column for each class or response: --report draws what a regression is off by")
	case at == nil && sequence(p):
	case at == nil:
		shape := p.MuShape
		if p.Signal != nil {
			shape = p.SignalShape
		}
		return study.Errorf("--picture needs a sequence without gaps, an image, a matrix or (rows, columns, 3), or a "+
			"series of them: %s has shape %s", of, ndarray.ShapeString(study.ShapeOut(p, shape)))
	case g.Frame >= at.frames:
		return study.Errorf("--frame is %d, expected 0 to %d: %s has %d images", g.Frame, at.frames-1, of, at.frames)
	}
	return nil
}

func (g *Picture) readTruth(p *problems.Problem) error {
	if p.Signal == nil {
		return study.Errorf("--truth is for a signal that is not mu: here the truth is the mean of y, which --mu gives")
	}
	a, err := dataio.ReadOne(g.Truth, dataio.TableOptions{}, func(s *dataio.Set, name string) (dataio.Array, error) {
		a, err := s.Numbers(name)
		if !s.IsImage() {
			a.ScaleToUnit()
		}
		return a, cmp.Or(err, a.CheckFinite())
	})
	if err != nil {
		return study.Errorf("--truth: %w", err)
	}
	if p.SignalComplex && !a.Complex && slices.Equal(a.Shape, p.SignalShape[:len(p.SignalShape)-1]) {
		pairs := make([]float64, 2*len(a.Data))
		for i, v := range a.Data {
			pairs[2*i] = v
		}
		a.Shape, a.Data, a.Complex = p.SignalShape, pairs, true
	}
	if !slices.Equal(a.Shape, p.SignalShape) || a.Complex != p.SignalComplex {
		return study.Errorf("--truth: array %q of %s has shape %s, expected that of the signal, %s", a.Name, g.Truth,
			numbersOf(a.Shape, a.Complex), numbersOf(p.SignalShape, p.SignalComplex))
	}
	g.signal = &a
	return nil
}

func numbersOf(shape []int, isComplex bool) string {
	if isComplex {
		return ndarray.ShapeString(shape[:len(shape)-1]) + ", complex"
	}
	return ndarray.ShapeString(shape) + ", real"
}

// signalOf is the signal of an estimate where that is not mu_hat and somebody wants it, else nil.
func (g *Picture) signalOf(p *problems.Problem, risk pipeline.Risk) (*dataio.Array, error) {
	if p.Signal == nil || !g.Wanted() || risk.B == nil {
		return nil, nil
	}
	a, err := study.Synthesize(p, risk.B)
	return &a, err
}

// Save draws the picture, if it is wanted, and returns the signal's loss, nil where no truth is known. name is that of
// the data; photograph says that y was read from an image.
func (g *Picture) Save(p *problems.Problem, data problems.Data, risk pipeline.Risk, r study.Result, name string,
	photograph bool, o Origin) (loss *float64, err error) {
	signal, err := g.signalOf(p, risk)
	if err != nil {
		return nil, err
	}
	if g.signal != nil && signal != nil {
		loss = new(math.Pow(floats.Distance(signal.Data, g.signal.Data, 2), 2))
	}
	if g.Path == "" {
		return loss, nil
	}
	m := &picture{of: g, p: p, data: data, muHat: risk.MuHat, signal: signal, photograph: photograph}
	if sequence(p) {
		return nil, o.save(g.Path, m.course(name, r))
	}
	return loss, o.save(g.Path, figure.Images{Title: m.title(name, r), Rows: m.rows(), Notes: m.notes(r, loss)})
}

func sequence(p *problems.Problem) bool {
	return len(study.ShapeOut(p, p.MuShape)) == 1 && !p.MuComplex && !p.Rows() && p.Signal == nil
}

func (m *picture) course(name string, r study.Result) figure.Sequence {
	f := figure.Sequence{Title: m.title(name, r), XLabel: "place", YLabel: "y", X: make([]float64, len(m.data.Y)),
		Y: m.measured(m.data.Y), Fit: m.measured(m.muHat), FitName: "estimate: " + m.notes(r, nil)[0]}
	if m.data.Mu != nil {
		f.Truth = m.measured(m.data.Mu)
	}
	seen := m.p.Observed()
	for i := range f.X {
		at := i
		if seen != nil {
			at = seen[i]
		}
		if f.X[i] = float64(at + 1); at < len(m.data.At) {
			f.X[i] = m.data.At[at]
		}
	}
	return f
}

type picture struct {
	of         *Picture
	p          *problems.Problem
	data       problems.Data
	muHat      []float64
	signal     *dataio.Array
	photograph bool // y was read from an image file
}

func (m *picture) measured(x []float64) []float64 {
	return study.Presented(m.p, dataio.Array{Shape: m.p.MuShape, Data: x}).Data
}

// rows are the images. A signal has a row of its own, and what was measured one above it, where that
// has the shape of an image.
func (m *picture) rows() (rows [][]figure.Panel) {
	p := m.p
	if v := newView(study.ShapeOut(p, p.MuShape), p.MuComplex); v != nil {
		y, fit := m.measured(m.data.Y), m.measured(m.muHat)
		var mu []float64
		if m.data.Mu != nil {
			mu = m.measured(m.data.Mu)
		}
		name := "estimate"
		if m.signal != nil {
			name = "fit to y"
		}
		rows = v.compare(m.of.Frame, name, y, fit, mu)
		for r := range rows {
			for i := range rows[r] {
				rows[r][i].Stretched = m.signal != nil && !slices.Equal(p.MuShape, p.SignalShape)
			}
		}
	}
	if m.signal != nil {
		v := newView(p.SignalShape, p.SignalComplex)
		var truth []float64
		if m.of.signal != nil {
			truth = m.of.signal.Data
		}
		var y []float64
		seen := p.Observed()
		if seen == nil { // of an image in colours
			seen = m.data.Indices
		}
		if seen != nil && !p.SignalComplex {
			y = slices.Clone(m.signal.Data)
			for k, at := range seen {
				y[at] = m.data.Y[k]
			}
		}
		rows = append(rows, v.compare(m.of.Frame, "estimate of the image", y, m.signal.Data, truth)...)
		if y != nil {
			rows[0][0].Caption = "y, and the estimate where y is missing"
		}
	}
	return rows
}

func (m *picture) title(name string, r study.Result) string {
	size := m.p.MuShape
	if m.p.Signal != nil {
		size = m.p.SignalShape
	}
	if size = study.ShapeOut(m.p, size); m.p.SignalComplex || m.p.MuComplex && m.p.Signal == nil {
		size = size[:len(size)-1]
	}
	sides := lists.Map(size, func(n int) string { return fmt.Sprint(n) })
	title := fmt.Sprintf("%s, %s, %s", r.Problem, filepath.Base(name),
		strings.Join(sides, " × "))
	if v := newView(size, false); v != nil && v.frames > 1 {
		title += fmt.Sprintf(", image %d", v.frame(m.of.Frame))
	}
	return title
}

func (m *picture) notes(r study.Result, signalLoss *float64) []string {
	var first []string
	for name, value := range r.WeightsResult.Each {
		first = append(first, fmt.Sprintf("%s = %.4g", symbols[name], value))
	}
	switch {
	case r.Sigma2 > 0 && r.Sigma2Method != "":
		first = append(first, fmt.Sprintf("σ² = %.4g ± %s, by %s", r.Sigma2, digits.Error(r.Sigma2**r.Sigma2RelStdErr),
			r.Sigma2Method))
	case r.Sigma2 > 0:
		first = append(first, fmt.Sprintf("σ² = %.4g", r.Sigma2))
	default:
		first = append(first, "σ² unknown")
	}
	first = append(first, fmt.Sprintf("degrees of freedom %.5g of %d", r.Divergence, r.Size()))
	if !r.Solver.Converged {
		first = append(first, "NOT CONVERGED")
	}
	notes := []string{strings.Join(first, ",  ")}
	d := float64(r.Size())
	what := ""
	if r.SUREEstimates != "" {
		what = ", of " + r.SUREEstimates
	}
	if r.SURE != nil {
		notes = append(notes, fmt.Sprintf("SURE %.4g ± %s,  %.3g ± %s for each of %d numbers%s%s", *r.SURE,
			digits.Error(*r.SUREStdErr), *r.SURE/d, digits.Error(*r.SUREStdErr/d), r.Size(),
			m.psnr(*r.SURE, *r.SUREStdErr), what))
	} else if r.GCV != nil {
		notes = append(notes, fmt.Sprintf("GCV %s: mean squared error of prediction, noise included",
			study.PlusMinus(*r.GCV, *r.GCVStdErr)))
	}
	if r.Loss != nil {
		notes = append(notes, fmt.Sprintf("true loss %.4g,  %.3g for each number%s", *r.Loss, *r.Loss/d,
			m.psnr(*r.Loss, 0)))
	}
	if signalLoss != nil {
		energy := floats.Dot(m.of.signal.Data, m.of.signal.Data)
		notes = append(notes, fmt.Sprintf("squared error of the image %.4g,  %.3g of the image's own square",
			*signalLoss, *signalLoss/energy))
	}
	return notes
}

// psnr is the peak signal-to-noise ratio of a squared error of the estimate of a photograph, whose
// peak is 1, and its range within one standard error.
func (m *picture) psnr(loss, stdErr float64) string {
	if !m.photograph || m.p.Signal != nil || !(loss > 0) || slices.Max(m.muHat) > 1.5 {
		return ""
	}
	ratio := func(loss float64) float64 { return 10 * math.Log10(float64(m.p.D)/loss) }
	if stdErr == 0 {
		return fmt.Sprintf(",  PSNR %.2f dB", ratio(loss))
	}
	if stdErr >= loss {
		return fmt.Sprintf(",  PSNR %.2f dB (at least %.2f)", ratio(loss), ratio(loss+stdErr))
	}
	return fmt.Sprintf(",  PSNR %.2f dB (%.2f to %.2f)", ratio(loss), ratio(loss+stdErr), ratio(loss-stdErr))
}

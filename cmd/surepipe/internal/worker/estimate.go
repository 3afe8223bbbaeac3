package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

	"surepipe"
	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/problems"
	"surepipe/risk/warning"
	"surepipe/study"
	"surepipe/study/request"
)

// Opened is an estimator that is open, until it is closed.
type Opened struct {
	Estimator string             `json:"estimator" jsonschema:"its name"`
	Warnings  []surepipe.Warning `json:"warnings,omitempty"`
}

func open(w *worker, ctx context.Context, q Question) (o Opened, err error) {
	e, err := w.open(ctx, q)
	if err != nil {
		return o, err
	}
	o.Warnings = e.Warnings()
	if o.Estimator, err = keep(w, w.estimators, "e", e); err != nil {
		e.Close()
	}
	return o, err
}

// Closed name what is no longer used.
type Closed struct {
	Estimator string `json:"estimator,omitempty"`
	Fit       string `json:"fit,omitempty"`
}

func closeOne(w *worker, _ context.Context, c Closed) (none struct{}, err error) {
	if c.Estimator != "" {
		e, err := kept(w, w.estimators, "estimator", c.Estimator)
		if err != nil {
			return none, err
		}
		e.Close()
	}
	if c.Fit != "" {
		if _, err := kept(w, w.fits, "fit", c.Fit); err != nil {
			return none, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.estimators, c.Estimator)
	delete(w.fits, c.Fit)
	return none, nil
}

type Wanted struct {
	Return       []string `json:"return,omitempty" jsonschema:"mu_hat; b, the solution; image, the signal if any"`
	Coefficients bool     `json:"coefficients,omitempty" jsonschema:"of a regression, by name with their errors"`
	Keep         bool     `json:"keep,omitempty" jsonschema:"keep the fit, for predict"`
	Out          string   `json:"out,omitempty" jsonschema:"a file for the fit (.npz) or the estimate, as run --out"`
	// A sweep audits by itself where that is cheap.
	Audit *bool `json:"audit,omitempty" jsonschema:"a few fits without some observations, into result.audit"`
}

type Fitted struct {
	Status int                `json:"status" jsonschema:"0, or 3 where the result is not to be trusted"`
	Result surepipe.Result    `json:"result,omitzero" jsonschema:"the object of surepipe run --json"`
	MuHat  *Array             `json:"mu_hat,omitempty"`
	B      *Array             `json:"b,omitempty"`
	Image  *Array             `json:"image,omitempty"`
	Fit    string             `json:"fit,omitempty" jsonschema:"the name of the fit that is kept"`
	Notes  []surepipe.Warning `json:"notes,omitempty" jsonschema:"what the file of out does not hold"`
}

// Which is an estimator that is open, by its name, or a question for this request alone.
type Which struct {
	Estimator string `json:"estimator,omitempty" jsonschema:"one that is open; without it the request opens its own"`
	Question
}

// of is the estimator, until done.
func (w *worker) of(ctx context.Context, p Which) (e *surepipe.Estimator, done func(), err error) {
	if p.Estimator == "" {
		if e, err = w.open(ctx, p.Question); err != nil {
			return nil, nil, err
		}
		return e, func() { e.Close() }, nil
	}
	if !reflect.DeepEqual(p.Question, Question{}) {
		return nil, nil, study.Errorf("--estimator is %.40q and options, arrays, spec, black_box or name are given, "+
			"expected one of them", p.Estimator)
	}
	e, err = kept(w, w.estimators, "estimator", p.Estimator)
	return e, func() {}, err
}

type FitParams struct {
	Which
	Wanted
}

func fit(w *worker, ctx context.Context, p FitParams) (all Fits, err error) {
	e, done, err := w.of(ctx, p.Which)
	if err != nil {
		return all, err
	}
	defer done()
	all.Fitted, all.Responses, err = each(w, ctx, e, p.Wanted, func(f *Fitted) *Fitted { return f }, w.fit)
	return all, err
}

func audit(w *worker, ctx context.Context, p FitParams) (Fits, error) {
	p.Audit = new(true)
	return fit(w, ctx, p)
}

func (w *worker) fitted(ctx context.Context, f *surepipe.Fit, p Wanted) (r Fitted, err error) {
	if p.Coefficients {
		if f.CoefficientsResult, err = f.Coefficients(ctx); err != nil {
			return r, err
		}
	}
	if p.Audit != nil && *p.Audit && f.Audits == nil {
		if _, err = f.Audit(ctx); err != nil {
			return r, err
		}
	}
	r.Result = f.Result
	if f.Untrusted {
		r.Status = 3
	}
	for _, name := range p.Return {
		a, to := surepipe.Array{}, &r.MuHat
		switch name {
		case "mu_hat":
			a = f.MuHat()
		case "b":
			a, to = f.B(), &r.B
		case "image":
			to = &r.Image
			if a, err = f.Image(); err != nil {
				return r, err
			}
		default:
			return r, study.Errorf("--return has %.40q, expected mu_hat, b or image", name)
		}
		written, err := w.array(name, a)
		if err != nil {
			return r, err
		}
		*to = &written
	}
	if p.Out != "" {
		if r.Notes, err = write(f, p.Out); err != nil {
			return r, err
		}
	}
	if p.Keep {
		m, err := f.Model()
		if err != nil {
			return r, err
		}
		r.Fit, err = keep(w, w.fits, "f", m)
		return r, err
	}
	return r, nil
}

func write(f *surepipe.Fit, path string) (notes []surepipe.Warning, err error) {
	err = dataio.WriteFile(path, func(to io.Writer) error {
		if strings.EqualFold(filepath.Ext(path), ".npz") {
			_, err := f.WriteTo(to)
			return err
		}
		notes, err = f.WriteImage(to, path)
		return err
	})
	return notes, err
}

// PredictParams say from which fit, and for which rows or entries.
type PredictParams struct {
	Fit  string `json:"fit,omitempty" jsonschema:"the name of one that was kept"`
	File string `json:"file,omitempty" jsonschema:"or the path of one that was written"`
	Data string `json:"data,omitempty" jsonschema:"a file with the new rows, or the entries, as predict --data"`
	X    *Array `json:"X,omitempty" jsonschema:"new rows"`
	// Indices are the wanted entries of a matrix: without them and data all that were not observed are predicted.
	Indices *Array `json:"indices,omitempty" jsonschema:"wanted entries of a matrix, counted row by row from 0"`
	Out     string `json:"out,omitempty" jsonschema:"a .csv file for the predictions, which are then not in the result"`
}

// PredictedNumbers are the keys of surepipe predict --json but for the predictions.
type PredictedNumbers surepipe.Prediction

// Predicted is the object of surepipe predict --json, whose predictions are arrays.
type Predicted struct {
	PredictedNumbers
	Values      *Array   `json:"values,omitempty" jsonschema:"predictions, of each class its probability"`
	Rows        *Array   `json:"rows,omitempty" jsonschema:"of entries of a matrix: the row of each, counted from 0"`
	Columns     *Array   `json:"columns,omitempty" jsonschema:"and its column"`
	RowNames    []string `json:"row_names,omitempty" jsonschema:"the names of the matrix's rows"`
	ColumnNames []string `json:"column_names,omitempty" jsonschema:"and of its columns"`
}

func predict(w *worker, ctx context.Context, p PredictParams) (none Predicted, err error) {
	var m *surepipe.Model
	if p.File != "" {
		var file *os.File
		if file, err = os.Open(p.File); err != nil {
			return none, study.Errorf("--file: %w", err)
		}
		defer file.Close()
		m, err = surepipe.ReadFit(file)
	} else {
		m, err = kept(w, w.fits, "fit", p.Fit)
	}
	if err != nil {
		return none, err
	}
	var data surepipe.Data
	switch {
	case p.X != nil && p.X.NPY != "":
		data = surepipe.File(p.X.NPY)
	case p.X != nil:
		read, err := p.X.read("X")
		if err != nil {
			return none, err
		}
		if len(read.Shape) != 2 {
			return none, study.Errorf("--X has %d axes, expected rows and columns", len(read.Shape))
		}
		data, err = surepipe.Arrays{X: mat.NewDense(read.Shape[0], read.Shape[1], read.Data)}.Data()
		if err != nil {
			return none, err
		}
	case p.Indices != nil:
		read := dataio.Array{Name: "indices"}
		if read.Data, err = p.Indices.values("indices"); err != nil {
			return none, err
		}
		read.Shape = []int{len(read.Data)}
		data = surepipe.In(dataio.Memory{held: {Arrays: []dataio.Array{integers(read)}}}, held)
	case p.Data != "":
		data = surepipe.File(p.Data)
	}
	r, err := m.Predict(ctx, data)
	if err != nil {
		return none, err
	}
	if p.Out != "" {
		err := dataio.WriteFile(p.Out, func(to io.Writer) error { return r.WriteCSV(ctx, to) })
		r.Predictions = nil
		return Predicted{PredictedNumbers: PredictedNumbers(*r)}, err
	}
	return w.predicted(ctx, r)
}

// mostEntries is the most entries of a matrix that arrays hold: half a gigabyte each.
const mostEntries = 1 << 26

func (w *worker) predicted(ctx context.Context, r *surepipe.Prediction) (p Predicted, err error) {
	if r.Predictions == nil && r.Count > mostEntries {
		return p, study.Errorf("the matrix has %d entries that were not observed, expected at most %d: give indices, "+
			"or out", r.Count, mostEntries)
	}
	var all [3][]float64 // values, rows, columns
	shape := []int{r.Count}
	if all[0] = r.Predictions; r.Classes != nil {
		shape, all[0] = append(shape, len(r.Classes)), slices.Concat(r.Probabilities...)
	}
	if r.Responses != nil {
		shape, all[0] = append(shape, len(r.Responses)), slices.Concat(r.Values...)
	}
	for e := range r.Entries() {
		if all[0] = append(all[0], e.Value); len(all[0])%(1<<16) == 0 && ctx.Err() != nil {
			return p, ctx.Err()
		}
		all[1], all[2] = append(all[1], float64(e.Row)), append(all[2], float64(e.Column))
	}
	p.RowNames, p.ColumnNames = r.Labels()
	r.Predictions, r.Probabilities, r.Values = nil, nil, nil
	p.PredictedNumbers = PredictedNumbers(*r)
	names := []string{"values", "rows", "columns"}
	for k, to := range []**Array{&p.Values, &p.Rows, &p.Columns} {
		if all[k] == nil && k > 0 {
			continue
		}
		if len(shape) == 1 {
			shape[0] = len(all[k])
		}
		a, err := w.array(names[k], surepipe.Array{Shape: slices.Clone(shape), Data: all[k]})
		if err != nil {
			return p, err
		}
		*to = &a
	}
	return p, nil
}

// DenoiseParams are an image, y or options.data, and how it is denoised. Without lambda SURE chooses that of tv.
type DenoiseParams struct {
	By string `json:"by,omitempty" jsonschema:"wavelets, the default, or tv, total variation"`
	Question
	Wanted
}

// tvGrid are the weights of total variation, over sigma, among which SURE chooses.
const tvFrom, tvTo, tvCount = 0.3, 3, 8

func denoise(w *worker, ctx context.Context, p DenoiseParams) (none Swept, err error) {
	r, err := w.request(p.Question)
	if err != nil {
		return none, err
	}
	if r.Problem != "" || r.Spec != "" {
		return none, study.Errorf("--problem or a specification is given, expected by alone")
	}
	if r.Data == "" {
		r.Data, r.Y = r.Y, ""
	}
	tv := false
	switch cmp.Or(p.By, "wavelets") {
	case "tv":
		tv, r.Problem = true, string(surepipe.TV2D)
	case "wavelets":
		text, err := problems.SpecExample("wavelet-denoise")
		if err != nil {
			return none, err
		}
		if r.Specification, err = problems.ParseSpec([]byte(text), "wavelets"); err != nil {
			return none, err
		}
		r.Spec = "wavelets"
	default:
		return none, study.Errorf("--by is %.40q, expected wavelets or tv", p.By)
	}
	defaultSigma2(r)
	e, err := w.openRequest(ctx, r, p.Name)
	if err != nil {
		return none, err
	}
	defer e.Close()
	if len(p.Return) == 0 && p.Out == "" {
		p.Return = []string{"image"}
	}
	if tv && !r.Given("lambda") {
		sigma2 := r.Sigma2
		if r.Estimate != nil {
			sigma2 = r.Estimate.Sigma2
		}
		sigma := math.Sqrt(sigma2)
		none, _, err = w.sweep(ctx, e,
			surepipe.Grid{Lambda: fmt.Sprintf("%g:%g:%d", tvFrom*sigma, tvTo*sigma, tvCount)}, p.Wanted)
		return none, err
	}
	none.Fitted, _, err = w.fit(ctx, e, p.Wanted)
	return none, err
}

// Sigma2 is an estimate of the variance of the noise.
type Sigma2 struct {
	Sigma2    float64 `json:"sigma2"`
	RelStdErr float64 `json:"sigma2_relative_stderr" jsonschema:"its standard error over its value"`
	Method    string  `json:"sigma2_method"`
}

func sigma2(w *worker, ctx context.Context, q Question) (s Sigma2, err error) {
	r, err := w.request(q)
	if err != nil {
		return s, err
	}
	if r.Problem == "" && r.Spec == "" {
		r.Program.Func = func(_ context.Context, _ map[string]float64, y []float64) ([]float64, error) { return y, nil }
	}
	defaultSigma2(r)
	e, err := w.openRequest(ctx, r, q.Name)
	if err != nil {
		return s, err
	}
	defer e.Close()
	if r.Estimate == nil {
		return s, study.Errorf("--sigma2 is a number, expected auto or the name of a method")
	}
	return Sigma2{r.Estimate.Sigma2, r.Estimate.RelStdErr, r.Estimate.Method}, nil
}

func defaultSigma2(r *request.Request) {
	if r.Sigma2 == 0 && r.Sigma2Method == "" {
		r.Sigma2Method = problems.Sigma2Methods()[0]
	}
}

// RiskParams are a question about a function of the client's.
type RiskParams struct {
	Question
	Wanted
}

func riskOf(w *worker, ctx context.Context, p RiskParams) (none Fitted, err error) {
	p.BlackBox = true
	e, err := w.open(ctx, p.Question)
	if err != nil {
		return none, err
	}
	defer e.Close()
	none, _, err = w.fit(ctx, e, p.Wanted)
	return none, err
}

type Info struct {
	Protocol int                `json:"protocol" jsonschema:"the version of the protocol"`
	Version  string             `json:"version"`
	BLAS     string             `json:"blas"`
	Devices  []string           `json:"devices" jsonschema:"the kinds of devices of this build"`
	Methods  []string           `json:"methods"`
	Problems []surepipe.Problem `json:"problems"`
	MaxFrame int                `json:"max_frame" jsonschema:"the bytes of the largest frame"`
	Folder   string             `json:"folder,omitempty" jsonschema:"where arrays are, until the worker ends"`
	Warnings map[string]Told    `json:"warnings" jsonschema:"what is known of the codes of warnings"`
}

type Told struct {
	Severity string `json:"severity" jsonschema:"note: the numbers stand; caution: in doubt; doubt: not to be trusted"`
	Quiet    bool   `json:"quiet,omitempty" jsonschema:"it is in the result, and commands do not print it"`
}

func info(w *worker, ctx context.Context, _ struct{}) (i Info, err error) {
	dev, err := request.OpenDevice(ctx, "cpu", 0)
	if err != nil {
		return i, err
	}
	defer dev.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	folder, err := w.folderHeld()
	told := map[string]Told{}
	for _, k := range warning.Kinds() {
		told[k.Code] = Told{k.Severity.String(), k.Quiet}
	}
	return Info{Protocol: Protocol, Version: study.Version(), BLAS: fmt.Sprint(array.BLASInfo()),
		Devices: array.Kinds(), Methods: names(), Problems: surepipe.Problems(), MaxFrame: MaxFrame,
		Folder: folder, Warnings: told}, err
}

type Cancelled struct {
	ID json.RawMessage `json:"id" jsonschema:"the id of the request"`
}

func cancelOne(w *worker, _ context.Context, p Cancelled) (none struct{}, err error) {
	w.server.CancelRequest(string(p.ID))
	return none, nil
}

func shutdown(w *worker, _ context.Context, _ struct{}) (none struct{}, err error) {
	w.server.Stop()
	return none, nil
}

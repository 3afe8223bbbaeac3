package surepipe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"gonum.org/v1/gonum/mat"

	"surepipe"
	"surepipe/array"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/prox"
	"surepipe/study"
	"surepipe/vjp"
)

func TestMain(m *testing.M) {
	if err := array.UseNative(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

const diabetes = "testdata/diabetes.npz"

func open(t *testing.T, d surepipe.Data, o surepipe.Options) *surepipe.Estimator {
	t.Helper()
	e, err := surepipe.Open(t.Context(), d, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func fitted(t *testing.T, e *surepipe.Estimator) *surepipe.Fit {
	t.Helper()
	f, err := e.Fit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// same compares two values in JSON, times aside.
func same(t *testing.T, a, b any) {
	t.Helper()
	var texts [2]string
	for i, v := range []any{a, b} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(study.WithoutTimes(text))
	}
	if texts[0] != texts[1] {
		t.Errorf("%s\nis not\n%s", texts[0], texts[1])
	}
}

// regression is a small X, y.
func regression() (x *mat.Dense, y []float64) {
	x = mat.NewDense(20, 4, nil)
	for i := range 20 {
		for j := range 4 {
			x.Set(i, j, math.Sin(float64(7*i+3*j*j+1)))
		}
		y = append(y, 2*x.At(i, 0)-x.At(i, 2)+0.1*math.Cos(float64(5*i)))
	}
	return x, y
}

// An estimate is the same from a file, a reader, a file system and arrays, dense or sparse, to the bit.
func TestDataAreTheSameFromEverySource(t *testing.T) {
	x, y := regression()
	var csv strings.Builder
	csv.WriteString("a,b,c,d,y\n")
	sparse := &surepipe.Sparse{}
	sparse.Rows, sparse.Cols = 20, 4
	for i := range 20 {
		row, err := json.Marshal(append(slices.Clone(x.RawRowView(i)), y[i]))
		if err != nil {
			t.Fatal(err)
		}
		csv.WriteString(strings.Trim(string(row), "[]") + "\n")
		for j := range 4 {
			sparse.Row, sparse.Col = append(sparse.Row, i), append(sparse.Col, j)
			sparse.Values = append(sparse.Values, x.At(i, j))
		}
	}
	o := surepipe.Options{Problem: surepipe.Ridge, Lambda: "0.5", Sigma2: 0.01, Intercept: new(false),
		Standardize: new(false)}
	arrays := func(x mat.Matrix) surepipe.Data {
		d, err := surepipe.Arrays{X: x, Y: y}.Data()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	want := fitted(t, open(t, arrays(x), o))
	o.Table.Response = "y"
	table, err := surepipe.Read(t.Context(), "t.csv", strings.NewReader(csv.String()))
	if err != nil {
		t.Fatal(err)
	}
	same(t, fitted(t, open(t, table, o)), want)
	in := surepipe.In(fstest.MapFS{"t.csv": {Data: []byte(csv.String())}}, "t.csv")
	same(t, fitted(t, open(t, in, o)), want)
	o.Table.Response = ""
	got := fitted(t, open(t, arrays(sparse), o))
	if math.Abs(*got.SURE-*want.SURE) > 1e-12*math.Abs(*want.SURE) {
		t.Errorf("sparse: SURE %v, dense %v", *got.SURE, *want.SURE)
	}
}

// A sweep that goes on after half of its lines, and one in shards that are merged, are the whole one.
func TestSweepsContinueAndMerge(t *testing.T) {
	e := open(t, surepipe.File(diabetes), surepipe.Options{Problem: surepipe.Lasso})
	grid := surepipe.Grid{Lambda: "0.01max:max:12", Chain: 3}
	var whole, again bytes.Buffer
	grid.Lines = &whole
	want, err := e.Sweep(t.Context(), grid)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(whole.Bytes(), []byte("\n"))
	grid.Known, grid.Lines = bytes.NewReader(append(bytes.Join(lines[:6], nil), lines[6][:20]...)), &again
	got, err := e.Sweep(t.Context(), grid)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got.Points, want.Points)
	same(t, got.Summary, want.Summary)
	for i, line := range bytes.SplitAfter(again.Bytes(), []byte("\n")) {
		if !bytes.Equal(study.WithoutTimes(line), study.WithoutTimes(lines[i])) {
			t.Errorf("line %d differs", i)
		}
	}
	files := fstest.MapFS{}
	grid.Known, grid.Lines, grid.File = nil, nil, filepath.Join(t.TempDir(), "sweep.jsonl")
	if err := os.WriteFile(grid.File, append(bytes.Join(lines[:5], nil), lines[5][:20]...), 0o666); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time all is there
		got, err := e.Sweep(t.Context(), grid)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got.Points, want.Points)
	}
	grid.File = ""
	for i := range 3 {
		var part bytes.Buffer
		shard := grid
		shard.Lines, shard.Shard = &part, surepipe.Shard{Index: i, Count: 3}
		if _, err := e.Sweep(t.Context(), shard); err != nil {
			t.Fatal(err)
		}
		if i != 1 {
			files[string(rune('a'+i))] = &fstest.MapFile{Data: part.Bytes()}
			continue
		}
		defer func() {
			files["b"] = &fstest.MapFile{Data: part.Bytes()}
			set, err := surepipe.ReadShards(t.Context(), false, files, "a", "b", "c")
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.Merge(t.Context(), grid, set)
			if err != nil {
				t.Fatal(err)
			}
			same(t, got.Points, want.Points)
			same(t, got.Summary, want.Summary)
		}()
	}
	var missing *study.MissingShards
	set, err := surepipe.ReadShards(t.Context(), false, files, "a", "c")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Merge(t.Context(), grid, set); !errors.As(err, &missing) ||
		!slices.Equal(missing.Indices, []int{1}) {
		t.Errorf("a missing shard: %v", err)
	}
}

// The maximum of a weight of one's own regularizer is where its estimate becomes 0: for the L1 norm the largest entry of
// A* y, for that of differences the largest of u with D* u = y - mean y; a quadratic has none, which is said.
func TestOwnWeightsHaveAMaximum(t *testing.T) {
	y := []float64{3, -1, 4, -7, 2, 6}
	d, err := surepipe.Arrays{Y: y}.Data()
	if err != nil {
		t.Fatal(err)
	}
	differences := linops.NewFunc(5, 6, func(dst, b []float64) {
		for i := range dst {
			dst[i] = b[i+1] - b[i]
		}
	}, func(dst, u []float64) {
		clear(dst)
		for i, v := range u {
			dst[i] -= v
			dst[i+1] += v
		}
	})
	cumulated, sum := 0.0, 0.0
	for _, v := range y {
		sum += v - 7./6
		cumulated = math.Max(cumulated, math.Abs(sum))
	}
	for name, c := range map[string]struct {
		own  func(o *surepipe.Own)
		want float64
	}{
		"the L1 norm":         {func(*surepipe.Own) {}, 7},
		"that of twice b":     {func(o *surepipe.Own) { o.Operator = linops.Scale(2, linops.Identity(6)) }, 14},
		"that of differences": {func(o *surepipe.Own) { o.Behind = differences }, cumulated},
	} {
		own := thresholding(6)
		c.own(own)
		e, err := surepipe.Open(t.Context(), d, surepipe.Options{Own: own, Lambda: "max", Sigma2: 1})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		defer e.Close()
		if got := float64(*fitted(t, e).Result.Lambda); math.Abs(got/c.want-1) > 1e-6 {
			t.Errorf("%s: %g, expected %g", name, got, c.want)
		}
		own.Weights = nil
		path, err := open(t, d, surepipe.Options{Own: own, Sigma2: 1}).Sweep(t.Context(), surepipe.Grid{Lambda: "0.1max:max:4"})
		if err != nil || math.Abs(float64(*path.Points[0].Lambda)/c.want-1) > 1e-6 {
			t.Errorf("%s: a sweep from the maximum: %v", name, err)
		}
	}
	own := thresholding(6)
	own.Regularizer = func(lambda, _, _ float64) (prox.Prox, error) { return prox.NewSquaredL2(lambda), nil }
	var bad *surepipe.InputError
	if _, err := surepipe.Open(t.Context(), d, surepipe.Options{Own: own, Lambda: "max"}); !errors.As(err, &bad) ||
		!strings.Contains(bad.Error(), "expected a number") || bad.Field != "lambda" {
		t.Errorf("a quadratic: %v", err)
	}
	if _, err := open(t, d, surepipe.Options{Own: own}).Sweep(t.Context(), surepipe.Grid{Lambda: "0.1:10:3"}); err != nil {
		t.Errorf("a quadratic in numbers: %v", err)
	}
}

// ones is an operator and a regularizer of one's own: soft thresholding of y.
func thresholding(d int) *surepipe.Own {
	same := func(dst, b []float64) { copy(dst, b) }
	return &surepipe.Own{Operator: linops.NewFunc(d, d, same, same),
		Regularizer: func(lambda, _, _ float64) (prox.Prox, error) { return prox.NewL1(lambda), nil }}
}

// An operator and a regularizer of one's own, and a function of y alone, have the risk of soft thresholding:
// -d sigma2 + sum_i min(y_i^2, lambda^2) + 2 sigma2 #{|y_i| > lambda}.
func TestOwnEstimatorsHaveTheRiskOfTheClosedForm(t *testing.T) {
	var y []float64
	want := 0.0
	for i := range 40 {
		v := 3 * math.Sin(float64(i*i+1))
		y = append(y, v)
		want += -0.5 + math.Min(v*v, 1)
		if math.Abs(v) > 1 {
			want += 2 * 0.5
		}
	}
	d, err := surepipe.Arrays{Y: y}.Data()
	if err != nil {
		t.Fatal(err)
	}
	o := surepipe.Options{Own: thresholding(40), Lambda: "1", Sigma2: 0.5}
	own := fitted(t, open(t, d, o))
	if math.Abs(*own.SURE-want) > 1e-6 {
		t.Errorf("SURE %v, expected %v", *own.SURE, want)
	}
	o.Own = nil
	o.BlackBox = &surepipe.BlackBox{Eval: func(_ context.Context, w map[string]float64, y []float64) ([]float64, error) {
		mu := make([]float64, len(y))
		for i, v := range y {
			mu[i] = v - math.Max(-w["lambda"], math.Min(w["lambda"], v))
		}
		return mu, nil
	}}
	o.Trace = "exact"
	box := fitted(t, open(t, d, o))
	if math.Abs(*box.SURE-want) > 0.5 {
		t.Errorf("black box: SURE %v, expected %v", *box.SURE, want)
	}
	path, err := open(t, d, surepipe.Options{Own: thresholding(40), Sigma2: 0.5}).Sweep(t.Context(),
		surepipe.Grid{Lambda: "0.1:3:10"})
	if err != nil || path.Fit == nil {
		t.Errorf("sweep: %v", err)
	}
}

// A panic of the caller's functions is an error wherever it happens.
func TestPanicsAreErrors(t *testing.T) {
	d, err := surepipe.Arrays{Y: make([]float64, 5)}.Data()
	if err != nil {
		t.Fatal(err)
	}
	d2, err := surepipe.Arrays{Y: []float64{1, 2, 3, 4, 5}}.Data()
	if err != nil {
		t.Fatal(err)
	}
	broken := func(dst, b []float64) { panic("broken") }
	for name, o := range map[string]surepipe.Options{
		"operator": {Own: &surepipe.Own{Operator: linops.NewFunc(5, 5, broken, broken),
			Regularizer: thresholding(5).Regularizer}, Lambda: "1", Sigma2: 1},
		"regularizer": {Own: &surepipe.Own{Operator: thresholding(5).Operator,
			Regularizer: func(_, _, _ float64) (prox.Prox, error) { panic("broken") }}, Lambda: "1", Sigma2: 1},
		"function": {BlackBox: &surepipe.BlackBox{Eval: func(context.Context, map[string]float64,
			[]float64) ([]float64, error) {
			panic("broken")
		}}, Sigma2: 1},
	} {
		for _, d := range []surepipe.Data{d, d2} {
			e, err := surepipe.Open(t.Context(), d, o)
			if err == nil {
				_, err = e.Fit(t.Context())
				e.Close()
			}
			var panicked *surepipe.PanicError
			if err == nil && name == "operator" {
				continue // y = 0 needs no product
			}
			if !errors.As(err, &panicked) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	e := open(t, d2, surepipe.Options{Own: thresholding(5), Lambda: "1", Sigma2: 1})
	for _, err := range e.Stream(t.Context(), func(func([]float64, error) bool) { panic("broken") }) {
		var panicked *surepipe.PanicError
		if !errors.As(err, &panicked) {
			t.Errorf("stream: %v", err)
		}
	}
}

// Every call refuses a context that is nil or done, and returns the cause.
func TestContextsEndCalls(t *testing.T) {
	e := open(t, surepipe.File(diabetes), surepipe.Options{Problem: surepipe.Lasso})
	fit := fitted(t, e)
	reason := errors.New("the client left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	for name, f := range map[string]func(context.Context) error{
		"open": func(ctx context.Context) error {
			_, err := surepipe.Open(ctx, surepipe.File(diabetes), surepipe.Options{Problem: surepipe.Lasso})
			return err
		},
		"read": func(ctx context.Context) error {
			_, err := surepipe.Read(ctx, "a", strings.NewReader(""))
			return err
		},
		"fit":   func(ctx context.Context) error { _, err := e.Fit(ctx); return err },
		"sweep": func(ctx context.Context) error { _, err := e.Sweep(ctx, surepipe.Grid{Lambda: "1:2:3"}); return err },
		"coefficients": func(ctx context.Context) error {
			_, err := fit.Coefficients(ctx)
			return err
		},
		"predict":     func(ctx context.Context) error { _, err := fit.Predict(ctx, surepipe.Data{}); return err },
		"monte carlo": func(ctx context.Context) error { _, err := e.MonteCarlo(ctx, surepipe.Draws{Count: 2}); return err },
		"stream": func(ctx context.Context) (err error) {
			for _, err = range e.Stream(ctx, samples(442)) {
			}
			return err
		},
	} {
		if err := f(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, reason) {
			t.Errorf("%s: %v", name, err)
		}
		var bad *surepipe.InputError
		if err := f(nil); !errors.As(err, &bad) { //nolint:staticcheck // that is the test
			t.Errorf("%s without a context: %v", name, err)
		}
	}
}

// samples are endless.
func samples(d int) iter.Seq2[[]float64, error] {
	return func(yield func([]float64, error) bool) {
		for i := 0; ; i++ {
			y := make([]float64, d)
			for j := range y {
				y[j] = math.Sin(float64(i + j*j))
			}
			if !yield(y, nil) {
				return
			}
		}
	}
}

// A stream takes no more samples than its results are taken, and ends with its loop.
func TestStreamsHoldTheirSourceUp(t *testing.T) {
	d, err := surepipe.Arrays{Y: make([]float64, 30)}.Data()
	if err != nil {
		t.Fatal(err)
	}
	e := open(t, d, surepipe.Options{Problem: surepipe.TV1D, Lambda: "1", Sigma2: 1})
	taken, seen := 0, 0
	for r, err := range e.Stream(t.Context(), func(yield func([]float64, error) bool) {
		for y, err := range samples(30) {
			taken++
			if !yield(y, err) {
				return
			}
		}
	}) {
		if err != nil || *r.Sample != seen {
			t.Fatal(r.Sample, err)
		}
		if seen++; seen == 5 {
			time.Sleep(50 * time.Millisecond)
			if taken > 9 {
				t.Errorf("%d samples were taken for 5 results", taken)
			}
			break
		}
	}
}

// Results can be read back from their JSON.
func TestResultsAreReadBack(t *testing.T) {
	e := open(t, surepipe.File(diabetes), surepipe.Options{Problem: surepipe.ElasticNet, Lambda: "5", Lambda2: "0.1"})
	path, err := e.Sweep(t.Context(), surepipe.Grid{Lambda: "0.1max:max:5"})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{fitted(t, e).Result, path.Points[2], path.Summary} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		back := reflect.New(reflect.TypeOf(v))
		if err := json.Unmarshal(text, back.Interface()); err != nil {
			t.Fatal(err)
		}
		same(t, back.Elem().Interface(), v)
	}
}

// A sample that is none is bad input, in its place, and a stream that keeps going goes on after it.
func TestBadSamplesAreBadInput(t *testing.T) {
	x, y := regression()
	for i := range y {
		y[i] = float64(i % 2)
	}
	d, err := surepipe.Arrays{X: x, Y: y}.Data()
	if err != nil {
		t.Fatal(err)
	}
	e := open(t, d, surepipe.Options{Problem: surepipe.Lasso, Loss: "logistic", Lambda: "1",
		Compute: surepipe.Compute{KeepGoing: true}})
	of := func(v float64) []float64 { return slices.Repeat([]float64{v}, len(y)) }
	samples := [][]float64{of(5), of(-1), of(1e200), of(1e-200), of(math.NaN()), of(math.Inf(1)), {1}, nil, y}
	n := 0
	for r, err := range e.Stream(t.Context(), func(yield func([]float64, error) bool) {
		for _, y := range samples {
			if !yield(y, nil) {
				return
			}
		}
	}) {
		var bad *surepipe.InputError
		if last := n == len(samples)-1; (err == nil) != last || !last && !errors.As(err, &bad) || *r.Sample != n {
			t.Errorf("sample %d: %v", n, err)
		}
		n++
	}
	if n != len(samples) {
		t.Errorf("%d results of %d samples", n, len(samples))
	}
}

// Groups of observations are labels of one's own as well as an array or a column of the data: the audit leaves out the
// same ones.
func TestOwnGroupsOfObservations(t *testing.T) {
	x, y := regression()
	labels := make([]int, len(y))
	table := "a,b,c,y,g\n"
	for i := range y {
		labels[i] = (i * i) % 7
		table += fmt.Sprintf("%v,%v,%v,%v,g%d\n", x.At(i, 0), x.At(i, 1), x.At(i, 2), y[i], labels[i])
	}
	columns, err := surepipe.Read(t.Context(), "a.csv", strings.NewReader(table))
	if err != nil {
		t.Fatal(err)
	}
	arrays, err := surepipe.Arrays{X: x.Slice(0, len(y), 0, 3), Y: y}.Data()
	if err != nil {
		t.Fatal(err)
	}
	no, yes := false, true
	o := surepipe.Options{Problem: surepipe.Ridge, Lambda: "2", Intercept: &yes, Standardize: &no}
	o.Folds.Groups = labels
	own, err := fitted(t, open(t, arrays, o)).Audit(t.Context())
	if err != nil || len(own) != 1 || own[0].By != "groups" {
		t.Fatal(own, err)
	}
	o.Folds.Groups, o.Table = nil, surepipe.Table{Response: "y", Groups: "g"}
	named, err := fitted(t, open(t, columns, o)).Audit(t.Context())
	if err != nil || math.Abs(named[0].Error/own[0].Error-1) > 1e-9 || named[0].Observations != own[0].Observations {
		t.Errorf("%+v, by a column %+v, %v", *own[0], named, err)
	}
	var bad *surepipe.InputError
	o.Table, o.Folds.Groups = surepipe.Table{}, labels[:3]
	if _, err := surepipe.Open(t.Context(), arrays, o); !errors.As(err, &bad) {
		t.Errorf("three labels: %v", err)
	}
}

// Entries that were not observed, and those at places that are asked for, are the same entries.
func TestPredictionsOfEntries(t *testing.T) {
	e := open(t, surepipe.File("testdata/mc60x40.npz"), surepipe.Options{Problem: surepipe.Completion, Lambda: "0.3max"})
	f := fitted(t, e)
	all, err := f.Predict(t.Context(), surepipe.Data{})
	if err != nil {
		t.Fatal(err)
	}
	var places []int
	var values []float64
	for e := range all.Entries() {
		places, values = append(places, 40*e.Row+e.Column), append(values, e.Value)
	}
	d, err := surepipe.Arrays{Indices: places, Y: values}.Data()
	if err != nil {
		t.Fatal(err)
	}
	some, err := f.Predict(t.Context(), d)
	if err != nil || some.Count != 60*40-960 || *some.MeanSquaredError != 0 {
		t.Errorf("%+v, %v", some, err)
	}
}

// What the process holds at most while an estimate is made, with its data, is a quarter to all of what was said
// beforehand; with less memory than that it is refused before it takes any.
func TestEstimateBytesBoundsTheMemory(t *testing.T) {
	o := surepipe.Options{Lambda: "0.05max"}
	for _, c := range []struct {
		problem surepipe.Problem
		sizes   [][2]int
		change  func(o *surepipe.Options)
	}{
		{surepipe.OLS, [][2]int{{50, 8}, {442, 10}, {4000, 100}}, func(o *surepipe.Options) { o.Lambda = "" }},
		{surepipe.Ridge, [][2]int{{50, 8}, {4000, 100}, {100, 4000}, {300, 300}}, func(o *surepipe.Options) { o.Lambda = "3" }},
		{surepipe.Lasso, [][2]int{{50, 8}, {442, 10}, {2000, 50}, {100, 400}, {600, 600}}, nil},
		{surepipe.ElasticNet, [][2]int{{50, 8}, {100, 400}}, func(o *surepipe.Options) { o.Lambda2 = "1" }},
		{surepipe.GroupLasso, [][2]int{{50, 10}, {100, 400}}, nil},
		{surepipe.Lasso, [][2]int{{50, 8}, {442, 10}, {2000, 50}}, func(o *surepipe.Options) { o.Loss = "logistic" }},
		{surepipe.Lasso, [][2]int{{442, 10}, {100, 400}}, func(o *surepipe.Options) { o.Loss, o.LossParameter = "huber", 1 }},
		{surepipe.SVT, [][2]int{{20, 10}, {60, 40}, {300, 200}}, nil},
		{surepipe.Completion, [][2]int{{20, 10}, {60, 40}, {2000, 30}}, nil},
		{surepipe.Completion, [][2]int{{20, 10}, {60, 40}}, func(o *surepipe.Options) { o.Effects = []string{"none"} }},
		{surepipe.RobustPCA, [][2]int{{20, 10}, {100, 60}}, func(o *surepipe.Options) { o.Gamma = "0.1max" }},
		{surepipe.TV1D, [][2]int{{100, 1}, {3000, 1}, {100000, 1}}, func(o *surepipe.Options) { o.Lambda = "2" }},
		{surepipe.Trend, [][2]int{{100, 1}, {3000, 1}}, func(o *surepipe.Options) { o.Lambda = "2" }},
		{surepipe.Whittaker, [][2]int{{100, 1}, {30000, 1}}, func(o *surepipe.Options) { o.Lambda = "2" }},
		{surepipe.TV2D, [][2]int{{8, 8}, {32, 32}, {64, 64}, {256, 256}}, func(o *surepipe.Options) { o.Lambda = "0.3" }},
	} {
		for _, size := range c.sizes {
			o := o
			if o.Problem, o.Sigma2 = c.problem, 0.1; c.change != nil {
				c.change(&o)
			}
			if o.Loss != "" {
				o.Sigma2 = 0
			}
			d, bytes := sized(t, o, size[0], size[1])
			name := fmt.Sprintf("%s %s %v", o.Problem, o.Loss, size)
			need := checkBytes(t, name, d, bytes, o, 4)
			o.Memory = need - 1
			var short *surepipe.MemoryError
			if _, err := surepipe.Open(t.Context(), d, o); !errors.As(err, &short) {
				t.Errorf("%s: with one byte less: %v", name, err)
			}
		}
	}
}

// checkBytes holds what EstimateBytes says of data of so many bytes against what is held at most; a few megabytes may be
// more.
func checkBytes(t *testing.T, name string, d surepipe.Data, bytes int64, o surepipe.Options, most float64) int64 {
	t.Helper()
	need, err := surepipe.EstimateBytes(t.Context(), d, o)
	if err != nil {
		t.Fatal(err)
	}
	peak(t, d, o) // the first of a kind makes what all share
	held := bytes + peak(t, d, o)
	if float64(need) > most*float64(held) { // a short peak is seen now and then
		for range 3 {
			held = max(held, bytes+peak(t, d, o))
		}
	}
	for range 9 { // on a busy machine garbage waits to be collected, and counts as held
		if need < held {
			held = min(held, bytes+peak(t, d, o))
		}
	}
	ratio := float64(need) / float64(held)
	t.Logf("%s: %d of %d bytes, %.2f", name, held, need, ratio)
	if ratio < 1 || ratio > most && need > 8<<20 {
		t.Errorf("%s: %d bytes are held at most, and %d estimated", name, held, need)
	}
	return need
}

var specifications = flag.Bool("specifications", false, "measure the memory of larger specifications, for minutes")

// The specifications that surepipe spec prints.
func TestEstimateBytesBoundsTheMemoryOfSpecifications(t *testing.T) {
	regressions := []string{"lasso", "ridge", "slope", "simplex", "ball"}
	for _, c := range []struct {
		name   string
		sizes  [][2]int
		lambda string
	}{
		{"lasso", [][2]int{{50, 8}, {100, 400}}, "0.05max"},
		{"ridge", [][2]int{{50, 8}, {1000, 50}}, "3"},
		{"slope", [][2]int{{50, 8}, {442, 10}, {100, 400}}, ""},
		{"simplex", [][2]int{{50, 8}, {1000, 50}}, ""},
		{"ball", [][2]int{{50, 8}, {1000, 50}, {100, 400}}, ""},
		{"svt", [][2]int{{20, 10}, {300, 200}}, "0.05max"},
		{"isotonic", [][2]int{{100, 1}, {3000, 1}}, ""},
		{"wavelet-basis", [][2]int{{32, 32}, {128, 128}}, ""},
		{"wavelet-denoise", [][2]int{{32, 32}, {128, 128}}, ""},
		{"deblur", [][2]int{{16, 16}, {32, 32}, {64, 64}}, ""},
		{"ct", [][2]int{{90, 32}, {90, 64}}, ""},
		{"tv-denoise", [][2]int{{16, 16}, {48, 48}}, ""},
		{"tv-deblur", [][2]int{{12, 12}, {16, 16}, {32, 32}, {48, 48}}, ""},
		{"tv-wavelets", [][2]int{{16, 16}, {32, 32}, {40, 40}, {48, 48}}, ""},
		{"nonnegative-tv", [][2]int{{16, 16}, {24, 24}}, ""},
	} {
		if !*specifications {
			c.sizes = c.sizes[:1]
		}
		text, err := problems.SpecExample(c.name)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range c.sizes {
			o := surepipe.Options{Lambda: c.lambda}
			if slices.Contains(regressions, c.name) {
				o.Problem = surepipe.Lasso
			} else if size[1] == 1 {
				o.Problem = surepipe.TV1D
			}
			d, bytes := sized(t, o, size[0], size[1])
			o.Problem, o.Spec, o.Sigma2 = "", text, 0.1
			checkBytes(t, fmt.Sprintf("%s %v", c.name, size), d, bytes, o, 12)
		}
	}
}

// sized are data of a problem, a wave in noise, of m x n, and their bytes.
func sized(t *testing.T, o surepipe.Options, m, n int) (surepipe.Data, int64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	x := mat.NewDense(m, n, nil)
	for i := range m {
		for j := range n {
			x.Set(i, j, math.Sin(float64(i)/7)*math.Cos(float64(j)/5)+2*rng.Float64()-1)
		}
	}
	a := surepipe.Arrays{Y: x.RawMatrix().Data, Shape: []int{m, n}}
	bytes := 8 * int64(m*n)
	switch o.Problem {
	case surepipe.OLS, surepipe.Ridge, surepipe.Lasso, surepipe.ElasticNet, surepipe.GroupLasso:
		a = surepipe.Arrays{X: x}
		for i := range m {
			v := x.At(i, n/2) + 0.5*x.At(i, 0) + 0.3*rng.Float64()
			if o.Loss == "logistic" {
				v = math.Round(1 / (1 + math.Exp(-4*v)))
			}
			a.Y = append(a.Y, v)
		}
		for j := range n {
			if o.Problem == surepipe.GroupLasso {
				a.Groups = append(a.Groups, j/5)
			}
		}
	case surepipe.Completion:
		a.Y = nil
		for at, v := range x.RawMatrix().Data {
			if rng.Float64() < 0.35 {
				a.Indices, a.Y = append(a.Indices, at), append(a.Y, v)
			}
		}
		bytes = 16 * int64(len(a.Y))
	case surepipe.TV1D, surepipe.Trend, surepipe.Whittaker:
		a.Shape = nil
	}
	d, err := a.Data()
	if err != nil {
		t.Fatal(err)
	}
	return d, bytes
}

// peak is how much the process holds more at most while an estimate is made.
func peak(t *testing.T, d surepipe.Data, o surepipe.Options) int64 {
	t.Helper()
	var before, now runtime.MemStats
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	runtime.GC()
	runtime.ReadMemStats(&before)
	done, most := make(chan struct{}), uint64(0)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
				runtime.ReadMemStats(&now)
				most = max(most, now.HeapAlloc)
			}
		}
	}()
	e := open(t, d, o)
	fitted(t, e)
	close(done)
	<-stopped
	runtime.ReadMemStats(&now)
	return int64(max(most, now.HeapAlloc)) - int64(before.HeapAlloc)
}

// A host with a bound ends an estimate that needs more with an error, and other estimates go on.
func TestABoundedHostEndsWhatNeedsMore(t *testing.T) {
	host := array.NewHostOf(1 << 20)
	same := func(dst, b []float64) { copy(dst, b) }
	large := &surepipe.Own{Operator: linops.NewFunc(1<<17, 1<<17, same, same), Regularizer: thresholding(1).Regularizer,
		Device: host}
	d, err := surepipe.Arrays{Y: make([]float64, 1<<17)}.Data()
	if err != nil {
		t.Fatal(err)
	}
	e, err := surepipe.Open(t.Context(), d, surepipe.Options{Own: large, Lambda: "1", Sigma2: 1})
	if err == nil {
		_, err = e.Fit(t.Context())
		e.Close()
	}
	var short *surepipe.MemoryError
	if !errors.As(err, &short) || short.Limit != 1<<20 {
		t.Errorf("%v", err)
	}
}

// Cross-validation with a fold for each observation is near leave-one-out, which keeps the weight as it is.
func TestCrossValidationOfSingleObservationsIsLeaveOneOut(t *testing.T) {
	x, y := regression()
	d, err := surepipe.Arrays{X: x, Y: y}.Data()
	if err != nil {
		t.Fatal(err)
	}
	e := open(t, d, surepipe.Options{Problem: surepipe.Ridge, Folds: surepipe.Folds{K: 20}})
	path, err := e.Sweep(t.Context(), surepipe.Grid{Lambda: "0.1:10:4", Criterion: "cv", Refine: new(0)})
	if err != nil {
		t.Fatal(err)
	}
	by, err := e.Sweep(t.Context(), surepipe.Grid{Lambda: "0.1:10:4", Criterion: "alo", Refine: new(0)})
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range path.Points {
		cv, alo := p.Number("cv"), by.Points[i].Number("alo")
		if cv == nil || alo == nil || math.Abs(*cv-*alo) > 0.1**alo {
			t.Errorf("point %d: cv %v, alo %v", i, *cv, *alo)
		}
	}
}

// A call ends within a second of its context, whatever it waits for, and the estimator can be closed.
func TestCallsEndWhateverTheyWaitFor(t *testing.T) {
	d, err := surepipe.Arrays{Y: []float64{1, 2, 3}}.Data()
	if err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	defer close(release)
	e := open(t, d, surepipe.Options{Sigma2: 1, BlackBox: &surepipe.BlackBox{
		Eval: func(_ context.Context, _ map[string]float64, y []float64) ([]float64, error) {
			<-release // it does not look at its context
			return y, nil
		}}})
	for name, f := range map[string]func(context.Context) error{
		"fit": func(ctx context.Context) error { _, err := e.Fit(ctx); return err },
		"stream": func(ctx context.Context) (err error) {
			for _, err = range e.Stream(ctx, samples(3)) {
			}
			return err
		},
		"monte carlo": func(ctx context.Context) error {
			_, err := e.MonteCarlo(ctx, surepipe.Draws{Count: 2, Sample: func(int) ([]float64, error) {
				return []float64{1, 2, 3}, nil
			}})
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		begin := time.Now()
		if err := f(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(begin); took > 1200*time.Millisecond {
			t.Errorf("%s took %v", name, took)
		}
		cancel()
	}
	e.Close()
	var bad *surepipe.InputError
	if _, err := e.Fit(t.Context()); !errors.As(err, &bad) {
		t.Errorf("after Close: %v", err)
	}
}

// What a caller of the packages below forgets is an error with a field, and no panic.
func TestWhatIsForgottenIsAnError(t *testing.T) {
	host := array.NewHost()
	for name, f := range map[string]func() error{
		"device": func() error {
			_, err := problems.New("lasso", nil, problems.Data{}, problems.Hyper{})
			return err
		},
		"data": func() error {
			_, err := problems.New("lasso", host, problems.Data{}, problems.Hyper{})
			return err
		},
		"lengths": func() error {
			x, y := regression()
			_, err := problems.EstimateSigma2("auto", "lasso", problems.Data{X: x, Y: y[:7]})
			return err
		},
		"solver":  func() error { _, err := pipeline.New(nil, pipeline.Options{}); return err },
		"problem": func() error { _, err := vjp.NewSolver(t.Context(), "fista", vjp.Problem{}, vjp.Options{}); return err },
		"reader":  func() error { _, err := surepipe.Read(t.Context(), "a.csv", nil); return err },
		"fit":     func() error { _, err := surepipe.ReadFit(nil); return err },
		"options": func() error { _, err := surepipe.Open(t.Context(), surepipe.Data{}, surepipe.Options{}); return err },
		"shard": func() error {
			e := open(t, surepipe.File(diabetes), surepipe.Options{Problem: surepipe.Lasso})
			_, err := e.Sweep(t.Context(), surepipe.Grid{Lambda: "1:2:3", Shard: surepipe.Shard{Index: 5, Count: 2}})
			return err
		},
		"two files": func() error {
			e := open(t, surepipe.File(diabetes), surepipe.Options{Problem: surepipe.Lasso})
			_, err := e.Sweep(t.Context(), surepipe.Grid{Lambda: "1:2:3", File: "x.jsonl", Lines: io.Discard})
			return err
		},
		"own": func() error {
			_, err := surepipe.Open(t.Context(), surepipe.Data{}, surepipe.Options{Own: &surepipe.Own{}})
			return err
		},
	} {
		var bad *surepipe.InputError
		if err := f(); !errors.As(err, &bad) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A sweep audits the point that it chooses where that is asked for, and not where it is refused. The fit there has the
// same audit, and one at its weights has it to the accuracy of its solution.
func TestSweepsAreAudited(t *testing.T) {
	x, y := regression()
	d, err := surepipe.Arrays{X: x, Y: y}.Data()
	if err != nil {
		t.Fatal(err)
	}
	e := open(t, d, surepipe.Options{Problem: surepipe.Lasso})
	for _, audit := range []bool{true, false} {
		path, err := e.Sweep(t.Context(), surepipe.Grid{Lambda: "0.01max:max:5", Audit: &audit})
		if err != nil || len(path.Summary.Audits) > 0 != audit {
			t.Errorf("%t: %d audits, %v", audit, len(path.Summary.Audits), err)
		}
		all, err := path.Fit.Audit(t.Context())
		if err != nil || len(all) != 1 || audit && !reflect.DeepEqual(all, path.Summary.Audits) {
			t.Errorf("%v of the fit, %v", all, err)
		}
		lambda := path.Fit.Result.Lambda
		at := fitted(t, open(t, d, surepipe.Options{Problem: surepipe.Lasso, Lambda: fmt.Sprint(float64(*lambda))}))
		own, err := at.Audit(t.Context())
		if err != nil || math.Abs(own[0].Error/all[0].Error-1) > 1e-6 || !reflect.DeepEqual(at.Result.Audits, own) {
			t.Errorf("%v at its weights, %v", own, err)
		}
	}
}

// Arrays stay the caller's: an offset, which is subtracted from y and mu, does not move them, and a second estimate from
// the same data is the first one.
func TestAnOffsetLeavesArraysAsTheyAre(t *testing.T) {
	y, mu := []float64{1, 2, 3, 4, 6}, []float64{1, 1, 3, 4, 5}
	arrays := surepipe.Arrays{X: mat.NewDense(5, 1, []float64{1, 0, 2, 1, 1}), Y: slices.Clone(y), Mu: slices.Clone(mu),
		Offset: []float64{1, 2, 1, 1, 3}}
	d, err := arrays.Data()
	if err != nil {
		t.Fatal(err)
	}
	var residuals [2]float64
	for k := range residuals {
		e, err := surepipe.Open(t.Context(), d, surepipe.Options{Problem: surepipe.Ridge, Lambda: "1", Sigma2: 1})
		if err != nil {
			t.Fatal(err)
		}
		fit, err := e.Fit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		residuals[k] = *fit.Residual
		e.Close()
	}
	if !slices.Equal(arrays.Y, y) || !slices.Equal(arrays.Mu, mu) || residuals[0] != residuals[1] {
		t.Errorf("y %v, mu %v, residuals %v", arrays.Y, arrays.Mu, residuals)
	}
}

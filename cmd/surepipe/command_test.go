package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/cpu"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/problems"
	"surepipe/study"
	"surepipe/study/load"
)

// command runs the program and returns what it printed.
func command(t testing.TB, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	status = execute(context.Background(), args, &out, &err)
	return status, out.String(), err.String()
}

// object runs the program with --json and returns the object it printed.
func object(t testing.TB, args ...string) map[string]any {
	t.Helper()
	status, stdout, stderr := command(t, append(args, "--json")...)
	if status != exitDone {
		t.Fatalf("surepipe %s: status %d, %s", strings.Join(args, " "), status, stderr)
	}
	if strings.Count(stdout, "\n") != 1 {
		t.Fatalf("expected one line, found %q", stdout)
	}
	var o map[string]any
	if err := json.Unmarshal([]byte(stdout), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// save writes arrays to a new .npz file.
func save(t testing.TB, arrays ...dataio.Array) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data.npz")
	if err := dataio.WriteNPZ(path, arrays...); err != nil {
		t.Fatal(err)
	}
	return path
}

func floats(name string, values []float64, shape ...int) dataio.Array {
	return dataio.Array{Name: name, Shape: shape, Data: values}
}

// near fails unless got is want to 1e-6 relative.
func near(t testing.TB, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-6*math.Abs(want)) {
		t.Errorf("%s: %.12g, expected %.12g", what, got, want)
	}
}

// The reference cases of testdata come from an independent dense solve.
func TestReferenceCases(t *testing.T) {
	text, err := os.ReadFile("../../testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases map[string]map[string]any
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for name, want := range cases {
		for _, solver := range []string{"ista", "fista", "admm"} {
			if testing.Short() && solver != "fista" {
				continue
			}
			args := []string{"run", "--problem", want["problem"].(string), "--data", "../../testdata/" + name + ".npz",
				"--solver", solver, "--trace", "exact", "--tol", "1e-9"}
			if want["problem"] == "matrix-completion" {
				args = append(args, "--effects", "none")
			}
			got := object(t, args...)
			for _, key := range []string{"d", "p", "sigma2", "lambda", "gamma", "residual", "divergence",
				"jacobian_fro2", "sure", "sure_stderr", "loss"} {
				if w, ok := want[key]; ok {
					near(t, name+" "+solver+" "+key, got[key].(float64), w.(float64))
				}
			}
		}
	}
}

func TestRegressionsOfTheDiabetesData(t *testing.T) {
	const data = "../../testdata/diabetes.npz"
	file, err := readFile(t.Context(), data, "lasso")
	if err != nil {
		t.Fatal(err)
	}
	// hat is tr X_S (X_S*X_S + c I)^{-1} X_S*.
	hat := func(keep func(j int) bool, c float64) float64 {
		d, p := file.X.Dims()
		x := mat.NewDense(d, p, nil)
		for j := range p {
			if keep(j) {
				x.SetCol(j, mat.Col(nil, j, file.X))
			}
		}
		var svd mat.SVD
		svd.Factorize(x, mat.SVDNone)
		trace := 0.0
		for _, s := range svd.Values(nil) {
			if s > 1e-9 {
				trace += s * s / (s*s + c)
			}
		}
		return trace
	}
	all := func(int) bool { return true }
	run := func(args ...string) (map[string]any, []float64) {
		out := filepath.Join(t.TempDir(), "fit.npz")
		o := object(t, append([]string{"run", "--data", data, "--trace", "exact", "--tol", "1e-11", "--max-iter",
			"200000", "--out", out}, args...)...)
		return o, readArray(t, out, "b")
	}
	for _, solver := range []string{"auto", "ista", "fista", "admm"} {
		o, _ := run("--problem", "ols", "--solver", solver)
		near(t, "ols "+solver, o["divergence"].(float64), 10)
		o, _ = run("--problem", "ridge", "--lambda", "0.05", "--solver", solver)
		near(t, "ridge "+solver, o["divergence"].(float64), hat(all, 0.05))
		o, b := run("--problem", "lasso", "--lambda", "0.1max", "--solver", solver)
		nonzeros := 0.0
		for _, v := range b {
			if v != 0 {
				nonzeros++
			}
		}
		near(t, "lasso "+solver, o["divergence"].(float64), nonzeros)
		o, b = run("--problem", "elastic-net", "--lambda", "50", "--lambda2", "0.2", "--solver", solver)
		near(t, "elastic net "+solver, o["divergence"].(float64), hat(func(j int) bool { return b[j] != 0 }, 0.2))
	}
}

// readOnly reads the only array of a file that has one, of any format.
func readOnly(t testing.TB, path string) dataio.Array {
	t.Helper()
	set, err := dataio.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	name, err := set.Only()
	if err != nil {
		t.Fatal(err)
	}
	a, err := set.Floats(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// readArray reads one float array of a file that the program wrote.
func readArray(t testing.TB, path, name string) []float64 {
	t.Helper()
	set, err := dataio.OpenNPZ(path)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	a, err := set.Floats(name)
	if err != nil {
		t.Fatal(err)
	}
	return a.Data
}

// Infinite weights turn robust PCA into its parts; JSON says "inf".
func TestInfiniteWeightsTurnRobustPCAIntoItsParts(t *testing.T) {
	const data = "../../testdata/rpca50x30.npz"
	exact := []string{"--data", data, "--trace", "exact", "--tol", "1e-10"}
	svt := object(t, append([]string{"run", "--problem", "svt", "--lambda", "25"}, exact...)...)
	pca := object(t, append([]string{"run", "--problem", "robust-pca", "--lambda", "25", "--gamma", "inf"},
		exact...)...)
	near(t, "gamma = inf", pca["divergence"].(float64), svt["divergence"].(float64))
	if pca["gamma"] != "inf" {
		t.Errorf("gamma is %v", pca["gamma"])
	}
	soft := object(t, append([]string{"run", "--problem", "robust-pca", "--lambda", "inf", "--gamma", "4"},
		exact...)...)
	above := 0.0
	for _, v := range readArray(t, data, "y") {
		if math.Abs(v) > 4 {
			above++
		}
	}
	near(t, "lambda = inf", soft["divergence"].(float64), above)
}

var seconds = regexp.MustCompile(`"seconds":(\{[^}]*\}|[0-9.e+-]+)`)

// Output is bit-identical, times aside, for any parallelism and probe batch.
func TestOutputDoesNotDependOnParallelismOrProbeBatch(t *testing.T) {
	base := []string{"montecarlo", "--problem", "robust-pca", "--data", "../../testdata/rpca50x30.npz", "--samples",
		"3", "--seed", "5", "--tol", "1e-4", "--device", "cpu"}
	want := ""
	for _, extra := range [][]string{{"--parallel", "1"}, {"--parallel", "2", "--probe-batch", "1"},
		{"--parallel", "8", "--probe-batch", "7"}, {"--parallel", "3", "--probe-batch", "200"}, {"--memory", "300KB"}} {
		status, stdout, stderr := command(t, append(base, extra...)...)
		if status != exitDone {
			t.Fatalf("%v: status %d, %s", extra, status, stderr)
		}
		got := seconds.ReplaceAllString(stdout, "")
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("%v gives\n%s\nnot\n%s", extra, got, want)
		}
	}
}

func TestMonteCarloPrintsALineASampleAndASummary(t *testing.T) {
	status, stdout, stderr := command(t, "mc", "--problem", "svt", "--data", "../../testdata/rpca50x30.npz",
		"--lambda", "30", "--samples", "5")
	if status != exitDone {
		t.Fatalf("status %d, %s", status, stderr)
	}
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	if len(lines) != 6 {
		t.Fatalf("%d lines", len(lines))
	}
	mean := 0.0
	for i, line := range lines[:5] {
		var r study.Result
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if *r.Sample != i || r.Loss == nil {
			t.Errorf("line %d: %s", i, line)
		}
		mean += *r.SURE / 5
	}
	var s study.Summary
	if err := json.Unmarshal([]byte(lines[5]), &s); err != nil {
		t.Fatal(err)
	}
	if !s.Summary || s.Samples != 5 || math.Abs(*s.MeanSURE-mean) > 1e-9*math.Abs(mean) || s.MeanLoss == nil ||
		s.MeanErrorStdErr == nil {
		t.Errorf("summary %s", lines[5])
	}
	if !strings.Contains(stderr, "mean SURE") {
		t.Errorf("standard error holds %q", stderr)
	}
}

func TestGenerateThenRunNeedsNoMoreFlags(t *testing.T) {
	for problem, size := range map[string][]string{
		"lasso": {"--d", "40"}, "matrix-completion": {"--rows", "30", "--cols", "20"},
		"robust-pca": {"--rows", "12", "--cols", "10"}, "svt": {"--rows", "10", "--cols", "12"},
		"tv1d": {"--d", "150"},
	} {
		path := filepath.Join(t.TempDir(), "data.npz")
		if status, _, stderr := command(t, append([]string{"generate", "--problem", problem, "--out", path},
			size...)...); status != exitDone {
			t.Fatalf("%s: status %d, %s", problem, status, stderr)
		}
		o := object(t, "run", "--problem", problem, "--data", path)
		if e := math.Abs(o["sure"].(float64) - o["loss"].(float64)); e > 4*o["sure_stderr"].(float64) {
			t.Errorf("%s: SURE %v, loss %v, error bar %v", problem, o["sure"], o["loss"], o["sure_stderr"])
		}
	}
}

func TestNotConvergedIsStatus3WithTheResultPrinted(t *testing.T) {
	status, stdout, stderr := command(t, "run", "--problem", "lasso", "--data", "../../testdata/diabetes.npz",
		"--max-iter", "3", "--json")
	if status != exitNotConverged || !strings.Contains(stdout, `"converged":false`) ||
		!strings.Contains(stderr, "raise --max-iter") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
}

func TestInterruptedIsStatus130(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, errs bytes.Buffer
	if status := execute(ctx, []string{"run", "--problem", "robust-pca", "--data", "../../testdata/rpca40.npz"}, &out,
		&errs); status != exitInterrupted || out.Len() > 0 {
		t.Errorf("status %d, %s%s", status, out.String(), errs.String())
	}
}

// Bad usage and bad input end with status 2 and one line that names the culprit.
func TestBadInputIsRefusedByName(t *testing.T) {
	x := floats("X", []float64{1, 2, 3, 4, 5, 6}, 3, 2)
	y := floats("y", []float64{1, 2, 3}, 3)
	sigma2 := floats("sigma2", []float64{1})
	good := save(t, x, y, sigma2)
	matrix := save(t, floats("y", []float64{1, 2, 3, 4, 5, 6}, 3, 2), sigma2)
	zeros := save(t, x, floats("y", make([]float64, 3), 3), sigma2)
	stack := save(t, x, floats("y", make([]float64, 6), 2, 3), sigma2)
	fit := filepath.Join(t.TempDir(), "none", "fit.npz")
	for _, c := range []struct {
		args string
		want string
	}{
		{"run", "--problem is missing, expected one of ols, ridge"},
		{"run --problem lasso", "--data is missing"},
		{"run --problem lars --data " + good, "--problem is \"lars\" (did you mean \"lasso\"?), expected one " +
			"of ols, ridge"},
		{"run --problem lasso --data /nowhere/x.npz", "/nowhere/x.npz: no such file"},
		{"run --problem lasso --lambda 1 --data " + matrix, `array "X" is missing`},
		{"run --problem lasso --lambda 1 --data " + stack, "surepipe montecarlo"},
		{"run --problem svt --lambda 1 --data " + good, `array "y" has shape (3,), expected (m, n)`},
		{"run --problem lasso --data " + good, "lambda is missing"},
		{"run --problem lasso --lambda 0 --data " + good, "--lambda is 0, expected a positive number"},
		{"run --problem lasso --lambda -1 --data " + good, `--lambda is "-1", expected a positive number, inf`},
		{"run --problem lasso --lambda nan --data " + good, `--lambda is "nan"`},
		{"run --problem lasso --lambda 0.5mx --data " + good, `--lambda is "0.5mx"`},
		{"run --problem lasso --lambda 0.5max --data " + zeros, "--lambda is 0.5max, but its maximum is 0 at this y"},
		{"run --problem robust-pca --lambda 1 --data " + matrix, "gamma is missing"},
		{"run --problem elastic-net --lambda 1 --lambda2 0.1max --data " + good,
			"--lambda2 is 0.1max, but this weight has no maximum"},
		{"run --problem lasso --lambda 1 --sigma2 0 --data " + good, "--sigma2 is 0, expected a positive number"},
		{"run --problem lasso --lambda 1 --sigma2 -2 --data " + good, "--sigma2 is -2, expected a positive number"},
		{"run --problem lasso --lambda 1 --sigma2 inf --data " + good, `--sigma2 is "inf": expected a number`},
		{"sweep --criterion sure --problem lasso --lambda 1:2:3 --data " + save(t, x, y), "--sigma2 is missing"},
		{"sweep --criterion cp --problem lasso --lambda 1:2:3 --data " + good,
			`--criterion is "cp", expected one of sure, gcv, alo, lgo, cv, aic, bic`},
		{"run --problem lasso --lambda 1 --data " + save(t, x, y, floats("sigma2", []float64{-1})),
			"sigma2 is -1, expected a positive number"},
		{"run --problem lasso --lambda 1 --solver gradients --data " + good,
			`--solver is "gradients", expected one of auto, direct, ista, fista, admm, active-set, newton`},
		{"run --problem lasso --lambda 1 --solver direct --data " + good, "--solver direct: "},
		{"run --problem ridge --lambda 1 --derivative unrolled --data " + good, "--solver direct: "},
		{"run --problem lasso --lambda 1 --derivative magic --data " + good,
			`--derivative is "magic", expected one of auto, implicit, unrolled`},
		{"run --problem lasso --lambda 1 --trace hutch --data " + good, `--trace is "hutch", expected one of auto, `},
		{"run --problem lasso --lambda 1 --trace hutch++ --queries 100 --data " + good,
			"--queries is 100: hutch++ takes a multiple of 3"},
		{"run --problem lasso --lambda 1 --queries 0 --data " + good, "--queries is 0, expected 2 or more"},
		{"run --problem lasso --lambda 1 --trace hutchinson --queries 1 --data " + good,
			"--queries is 1: hutchinson takes 2 or more"},
		{"run --problem lasso --lambda 1 --queries auto --trace-error 0 --data " + good,
			"--trace-error is 0, expected a positive number"},
		{"run --problem lasso --lambda 1 --trace-error 0.2 --queries 102 --data " + good,
			"--trace-error is for --queries auto, found --queries 102"},
		{"run --problem lasso --lambda 1 --queries many --data " + good,
			"--queries is \"many\": expected a number or auto"},
		{"run --problem lasso --lambda 1 --seed -1 --data " + good, "--seed is \"-1\", expected a whole number"},
		{"run --problem lasso --lambda 1 --tol 0 --data " + good, "--tol is 0"},
		{"run --problem lasso --lambda 1 --tol 2 --data " + good, "--tol is 2, expected a number between 0 and 1"},
		{"run --problem lasso --lambda= --data " + good, "--lambda is empty"},
		{"generate --problem svt --rows 10000000 --cols 10000000 --out x.npz",
			"svt: a data set of this size takes 8e+05 GB in memory, of which there are"},
		{"generate --problem mri --rows 1000000 --out x.npz",
			"mri: a data set of this size takes 6.4e+04 GB in memory"},
		{"generate --problem lasso --d 4294967296 --p 4294967296 --out x.npz", "lasso: a row of X takes"},
		{"generate --problem lasso --d 1000000000 --p 1000000 --out x.npz",
			"X takes 8e+06 GB, and the disk of x.npz has"},
		{"generate --problem matrix-completion --rows 2000000000 --cols 2000000 --entries 1000 --out x.npz",
			"matrix-completion: a data set of this size takes"},
		{"sweep --problem elastic-net --lambda 1:2:100000 --lambda2 1:2:100000 --data " + good,
			"make a grid of 100000 x 100000 points, expected at most 16777216"},
		{"montecarlo --problem lasso --lambda 1 --first 9223372036854775807 --samples 2 --data " + good,
			"expected a last sample of at most"},
		{"run --problem lasso --lambda 1 --max-iter 0 --data " + good, "--max-iter is 0"},
		{"run --problem lasso --lambda 1 --memory lots --data " + good,
			`--memory is "lots", expected a size such as 4GiB`},
		{"run --problem lasso --lambda 1 --device cuda:9 --data " + good, `--device is "cuda:9"`},
		{"run --problem lasso --lambda 1 --device tpu --data " + good, `--device is "tpu"`},
		{"run --problem lasso --lambda 1 --out " + fit + " --data " + good, "--out"},
		{"run --problem lasso --lambda 1 --data " + good + " extra", `takes flags only, found "extra"`},
		{"run --lambada 1", "unknown flag --lambada (did you mean --lambda?)"},
		{"sing", `unknown command "sing"`},
		{"montecarlo --problem lasso --lambda 1 --data " + good, `no "mu"`},
		{"montecarlo --problem lasso --lambda 1 --samples 0 --data " + good, "--samples is 0"},
		{"montecarlo --problem lasso --lambda 1 --parallel 0 --data " + good, "--parallel is 0, expected 1 to 16384"},
		{"montecarlo --problem lasso --lambda 1 --samples 5 --data " + stack, "--samples is 5, but " + stack +
			" holds 2 from sample 0 on"},
		{"paper --problem svt", `--problem is "svt", expected all or one of lasso`},
		{"paper --largest lots", `--largest is "lots", expected a size`},
		{"paper --queries 7", "--queries is 7: hutch++ takes"},
		{"generate", `--problem is "", expected one of lasso`},
		{"generate --problem lasso", "--d is missing for lasso"},
		{"generate --problem lasso --d 10 --rows 3 --out x.npz", "--rows does not apply to lasso"},
		{"generate --problem tv1d --out x.npz", "--d is missing for tv1d"},
		{"generate --problem tv1d --d 10 --p 3 --out x.npz", "--p does not apply to tv1d"},
		{"generate --problem tv1d --d 10 --float32 --out x.npz", "--float32 does not apply to tv1d"},
		{"generate --problem lasso --d 10 --nonzeros 0 --out x.npz", "--nonzeros is 0, expected at least 1"},
		{"generate --problem lasso --d 10 --nonzeros 21 --out x.npz", "21 nonzero coefficients of 20"},
		{"generate --problem tv1d --d 1 --out x.npz", "a sequence of 1 values, expected at least 2"},
		{"generate --problem svt --rows 0 --cols 3 --out x.npz", "--rows is 0, expected at least 1"},
		{"generate --problem svt --rows 3 --cols 3", "--out is missing"},
		{"generate --problem svt --rows 3 --cols 3 --out " + fit, "--out"},
	} {
		status, stdout, stderr := command(t, strings.Fields(c.args)...)
		if status != exitUsage || stdout != "" || strings.Count(stderr, "\n") != 1 ||
			!strings.HasPrefix(stderr, "surepipe: ") || !strings.Contains(stderr, c.want) {
			t.Errorf("surepipe %s: status %d, expected %q in one line, found %q%q", c.args, status, c.want, stdout,
				stderr)
		}
	}
}

// The keys of the JSON object are a contract.
func TestJSONHasTheKeysOfTheContract(t *testing.T) {
	o := object(t, "run", "--problem", "matrix-completion", "--data", "../../testdata/mc60x40.npz")
	for _, key := range strings.Fields("problem d p sigma2 lambda sure sure_stderr sure_per_coordinate residual " +
		"divergence divergence_stderr loss solver derivative jacobian_fro2 trace seconds device version") {
		if _, ok := o[key]; !ok {
			t.Errorf("no %q in %v", key, o)
		}
	}
	for object, keys := range map[string]string{"solver": "name iterations converged optimality",
		"trace": "estimator queries seed", "seconds": "solve divergence total"} {
		for _, key := range strings.Fields(keys) {
			if _, ok := o[object].(map[string]any)[key]; !ok {
				t.Errorf("no %q in %q: %v", key, object, o[object])
			}
		}
	}
}

func TestHelpAndInfo(t *testing.T) {
	for _, args := range []string{"", "help", "run --help", "montecarlo --help", "generate --help", "spec --help",
		"spec", "sweep --help", "info --help", "paper --help", "paper tables --help", "paper figures --help", "info",
		"--version", "completion bash"} {
		status, stdout, stderr := command(t, strings.Fields(args)...)
		if status != exitDone || stdout == "" || stderr != "" {
			t.Errorf("surepipe %s: status %d, %q", args, status, stderr)
		}
	}
	if _, stdout, _ := command(t, "info"); !strings.Contains(stdout, "BLAS") || !strings.Contains(stdout, "cpu") {
		t.Errorf("info says %q", stdout)
	}
}

// A user's OPENBLAS_CORETYPE is read when the library is loaded, so the program
// runs in a process of its own.
func TestInfoSaysThatTheUsersKernelsAreSlow(t *testing.T) {
	const child = "SUREPIPE_TEST_INFO_CHILD"
	if os.Getenv(child) != "" {
		_, stdout, stderr := command(t, "info")
		fmt.Println(stdout, stderr)
		return
	}
	if r := array.BLASInfo(); r.Name != "OpenBLAS" || !strings.Contains(r.Version, "DYNAMIC_ARCH") ||
		!cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		t.Skipf("no OpenBLAS that chooses its kernels, or no AVX2: %v", r)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), child+"=1", "OPENBLAS_CORETYPE=Prescott")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"kernels   Prescott, slow for this processor",
		"unset OPENBLAS_CORETYPE=Prescott, or set OPENBLAS_CORETYPE="} {
		if !strings.Contains(string(out), want) {
			t.Errorf("info does not say %q: %s", want, out)
		}
	}
}

// Rows that fit are printed with our value near the loss, the others named.
func TestPaperPrintsItsTables(t *testing.T) {
	status, stdout, stderr := command(t, "paper", "--largest", "1600KB")
	if status != exitDone {
		t.Fatalf("status %d, %s", status, stderr)
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines:\n%s", len(lines), stdout)
	}
	for i, problem := range []string{"lasso", "matrix-completion", "robust-pca"} {
		if !strings.HasPrefix(lines[i+1], problem+" ") {
			t.Errorf("line %d is %q", i+1, lines[i+1])
		}
	}
	if !strings.Contains(stderr, "lasso 25000 x 50000 is left out: it takes about 15 GB") {
		t.Errorf("standard error holds %q", stderr)
	}
}

// Columns in raw units, from 1 to 10^4: the divergence of least squares and of a
// LASSO that keeps everything is the number of columns whatever their units.
func TestDivergenceDoesNotDependOnTheUnitsOfTheColumns(t *testing.T) {
	const d, p = 120, 5
	x, y := make([]float64, d*p), make([]float64, d)
	for i := range d {
		row := []float64{5e4 + 1e4*math.Sin(float64(3*i)), 40 + 10*math.Cos(float64(5*i)),
			math.Sin(float64(7 * i * i)), float64(i % 2), 1}
		copy(x[i*p:], row)
		y[i] = row[0]/1e4 + row[1]/10 + row[2] - row[3] + 2 + math.Cos(float64(11*i*i))
	}
	data := save(t, floats("X", x, d, p), floats("y", y, d), floats("sigma2", []float64{1}))
	for _, trace := range []string{"exact", "hutch++"} {
		near(t, "ols "+trace, object(t, "run", "--problem", "ols", "--solver", "admm", "--data", data, "--trace",
			trace)["divergence"].(float64), p)
		near(t, "lasso "+trace, object(t, "run", "--problem", "lasso", "--lambda", "0.01", "--solver", "admm",
			"--data", data, "--trace", trace, "--max-iter", "100000")["divergence"].(float64), p)
	}
}

// readFile reads the data of a file for a problem.
func readFile(ctx context.Context, path, problem string) (load.Contents, error) {
	return (&load.Source{Files: problems.Disk, Problem: problem, Data: path}).Read(ctx)
}

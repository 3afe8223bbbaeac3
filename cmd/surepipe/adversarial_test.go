package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"surepipe/internal/dataio"
	"surepipe/risk/warning"
)

// adversary is y = end(mu + noise of size 1) that a shortcut may get wrong, an image or the response of a table.
type adversary struct {
	name string
	mu   func(i, j int) float64
	end  func(v float64) float64 // what the instrument makes of an entry; nil for nothing
}

const sideOfImage = 24

// toStep is what is left of a value that is rounded to multiples of a step.
func toStep(step float64) func(float64) float64 {
	return func(v float64) float64 { return step * math.Round(v/step) }
}

var adversarialImages = []adversary{
	{"zero", func(i, j int) float64 { return 0 }, nil},
	{"flat", func(i, j int) float64 { return 7 }, nil},
	{"checkerboard", func(i, j int) float64 { return 20 * float64((i+j)%2) }, nil},
	{"board of squares", func(i, j int) float64 { return 5 * float64((i/4+j/4)%2) }, nil},
	{"stripes", func(i, j int) float64 { return 10 * float64(j%2) }, nil},
	{"bright pixel", func(i, j int) float64 { return at(i == 5 && j == 7, 1e3) }, nil},
	{"bright corner", func(i, j int) float64 { return at(i+j == 0, 1e3) }, nil},
	{"bright row", func(i, j int) float64 { return at(i == 9, 300) }, nil},
	{"ramp", func(i, j int) float64 { return float64(i + 2*j) }, nil},
	{"steep ramp", func(i, j int) float64 { return 100 * float64(i) }, nil},
	{"edge on a large mean", func(i, j int) float64 { return 1e5 + 5*float64(i/12) }, nil},
	{"rounded", func(i, j int) float64 { return float64(i) / 2 }, toStep(1)},
	{"rounded coarsely", func(i, j int) float64 { return float64(i) / 2 }, toStep(4)},
	{"rounded to two values", func(i, j int) float64 { return float64(i) / 2 }, toStep(12)},
	{"clipped", func(i, j int) float64 { return float64(i) / 2 }, func(v float64) float64 { return max(v, 6) }},
}

func at(there bool, v float64) float64 {
	if there {
		return v
	}
	return 0
}

// Images whose shape, rounding or units are unusual have a SURE within four bars of the true loss, the same in any
// units, or are marked: by the exit status, by a warning, or by an error that says why there is no number.
func TestAdversarialImages(t *testing.T) {
	dir := t.TempDir()
	for k, a := range adversarialImages {
		rng := rand.New(rand.NewPCG(5, uint64(k)))
		mu, y := make([]float64, sideOfImage*sideOfImage), make([]float64, sideOfImage*sideOfImage)
		for i := range mu {
			mu[i] = a.mu(i/sideOfImage, i%sideOfImage)
			if y[i] = mu[i] + rng.NormFloat64(); a.end != nil {
				y[i] = a.end(y[i])
			}
		}
		for l, problem := range []string{"--problem tv2d --lambda 1", "--problem tv2d --anisotropic --lambda 0.7",
			"--spec wavelet-basis --lambda 1.5", "--problem svt --lambda 8"} {
			rightOrMarked(t, k+l, a.name+", "+problem, func(unit float64) []string {
				args := strings.Fields(problem)
				return append(args[:len(args)-1], scaledText(args[len(args)-1], unit),
					"--data", saved(t, dir, "y", y, unit, sideOfImage, sideOfImage),
					"--mu", saved(t, dir, "mu", mu, unit, sideOfImage, sideOfImage))
			})
		}
	}
}

// adversarialTables change X, 60 x 12 or 60 x 80, of a response of three columns with noise of size 1.
var adversarialTables = []struct {
	name string
	p    int
	x    func(i, j int, v float64, row []float64) float64 // the entry for the normal number v; row has those before it
	end  func(v float64) float64
}{
	{"plain", 12, func(_, _ int, v float64, _ []float64) float64 { return v }, nil},
	{"wide", 80, func(_, _ int, v float64, _ []float64) float64 { return v }, nil},
	{"equal columns", 12, func(_, j int, v float64, row []float64) float64 {
		return v*at(j < 6, 1) + at(j > 5, row[j%6])
	}, nil},
	{"nearly equal columns", 12, func(_, j int, v float64, row []float64) float64 {
		return v*(at(j < 6, 1)+1e-9) + at(j > 5, row[j%6])
	}, nil},
	{"a constant column", 12, func(_, j int, v float64, _ []float64) float64 {
		return v*at(j != 4, 1) + at(j == 4, 3)
	}, nil},
	{"an empty column", 12, func(_, j int, v float64, _ []float64) float64 { return v * at(j != 4, 1) }, nil},
	{"columns of all units", 12, func(_, j int, v float64, _ []float64) float64 {
		return v * math.Pow(10, float64(j-6))
	}, nil},
	{"a row that stands out", 12, func(i, _ int, v float64, _ []float64) float64 {
		return v * (1 + at(i == 9, 1e4))
	}, nil},
	{"a single entry", 12, func(i, j int, v float64, _ []float64) float64 {
		return v * (at(j != 2, 1) + at(i == 30, 1))
	}, nil},
	{"of 0 and 1", 12, func(_, _ int, v float64, _ []float64) float64 { return at(v > 0.5, 1) }, nil},
	{"on a large mean", 12, func(_, _ int, v float64, _ []float64) float64 { return 1e6 + v }, nil},
	{"rounded response", 12, func(_, _ int, v float64, _ []float64) float64 { return v }, toStep(1)},
	{"coarsely rounded response", 12, func(_, _ int, v float64, _ []float64) float64 { return v }, toStep(8)},
}

// The same is true of tables, in units of y and of X.
func TestAdversarialTables(t *testing.T) {
	dir := t.TempDir()
	for k, a := range adversarialTables {
		rng := rand.New(rand.NewPCG(6, uint64(k)))
		const d = 60
		x, mu, y := make([]float64, d*a.p), make([]float64, d), make([]float64, d)
		for i := range d {
			row := x[i*a.p : (i+1)*a.p]
			for j := range row {
				row[j] = a.x(i, j, rng.NormFloat64(), row)
			}
			mu[i] = 2*row[0] - row[1] + 3*row[2]
			if y[i] = mu[i] + rng.NormFloat64(); a.end != nil {
				y[i] = a.end(y[i])
			}
		}
		for _, problem := range []string{"--problem lasso --lambda 0.1max",
			"--problem lasso --intercept --lambda 0.02max", "--problem elastic-net --lambda 0.1max --lambda2 0", "--problem ols"} {
			for l, ofX := range []float64{1, 1e-9, 1e9} {
				rightOrMarked(t, k+l, fmt.Sprintf("%s, %s, X times %g", a.name, problem, ofX), func(unit float64) []string {
					return append(strings.Fields(problem), "--X", saved(t, dir, "X", x, ofX, d, a.p), "--y",
						saved(t, dir, "y", y, unit, d), "--mu", saved(t, dir, "mu", mu, unit, d))
				})
			}
		}
	}
}

// rightOrMarked runs a command in units of 1, and of 1e-9 or 1e9 by turns.
func rightOrMarked(t *testing.T, turn int, name string, args func(unit float64) []string) {
	var in1 judged
	for _, unit := range []float64{1, []float64{1e-9, 1e9}[turn%2]} {
		got := judge(t, append(args(unit), "--sigma2", fmt.Sprint(unit*unit)), unit)
		if unit == 1 {
			in1 = got
		}
		moved := math.Abs(got.sure-in1.sure) / in1.bar
		if off := math.Abs(got.sure-got.loss) / got.bar; !(off <= 4 && moved <= 0.01 || got.marked) {
			t.Errorf("%s, unit %g: SURE %.6g, loss %.6g, %.2g bars off, %.2g bars from that in units of 1, unmarked",
				name, unit, got.sure, got.loss, off, moved)
		}
	}
}

// judged is SURE with its bar and the true loss, in units of 1.
type judged struct {
	sure, bar, loss float64
	marked          bool
}

func judge(t *testing.T, args []string, unit float64) judged {
	t.Helper()
	status, stdout, stderr := command(t, append([]string{"run", "--json"}, args...)...)
	if status != exitDone && status != exitNotConverged {
		t.Logf("%v: status %d, %s", args, status, stderr)
		return judged{marked: stderr != ""}
	}
	var r struct {
		SURE     *float64          `json:"sure"`
		Bar      *float64          `json:"sure_stderr"`
		Loss     *float64          `json:"loss"`
		Warnings []warning.Warning `json:"warnings"`
	}
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || r.SURE == nil || r.Bar == nil || r.Loss == nil {
		t.Fatalf("%v: %v, %s", args, err, stdout)
	}
	scale := unit * unit
	return judged{*r.SURE / scale, *r.Bar / scale, *r.Loss / scale, status == exitNotConverged ||
		slices.ContainsFunc(r.Warnings, func(w warning.Warning) bool { return w.Severity() >= warning.Caution })}
}

func saved(t *testing.T, dir, name string, values []float64, unit float64, shape ...int) string {
	t.Helper()
	path, scaled := filepath.Join(dir, name+".npy"), make([]float64, len(values))
	for i, v := range values {
		scaled[i] = unit * v
	}
	if err := dataio.WriteNPY(path, floats(name, scaled, shape...)); err != nil {
		t.Fatal(err)
	}
	return path
}

func scaledText(number string, unit float64) string {
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return number
	}
	return fmt.Sprint(unit * v)
}

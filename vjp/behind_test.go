package vjp_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/internal/dataio"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/solvetest"
	"surepipe/vjp"
)

// variation is a case of testdata/tv, with the figures of an independent computation.
type variation struct {
	File          string
	Weight        float64
	Divergence    float64
	Fro2          float64 `json:"jacobian_fro2"`
	Residual      float64
	Tangent       int     `json:"tangent_dimension"`
	MuHat2        float64 `json:"mu_hat_norm2"`
	problem       vjp.Problem
	y             []float64
	name          string
	blurred, iso2 bool
}

// variations are the cases on a device.
func variations(t *testing.T, dev array.Device) []variation {
	t.Helper()
	text, err := os.ReadFile("../testdata/tv/tv.json")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]variation{}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	var out []variation
	for _, name := range []string{"denoise_isotropic", "denoise_anisotropic", "deblur_isotropic",
		"deblur_anisotropic"} {
		c := cases[name]
		set, err := dataio.Open("../testdata/tv/" + c.File)
		if err != nil {
			t.Fatal(err)
		}
		read := func(name string) dataio.Array {
			a, err := set.Floats(name)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		y, kernel := read("y"), read("kernel")
		k := imaging.NewGradient(y.Shape, nil, imaging.Reflecting)
		c.name, c.y = name, y.Data
		c.problem = vjp.Problem{A: linops.Identity(len(y.Data)), K: k, R: prox.NewL1(c.Weight), Device: dev}
		if c.blurred = strings.HasPrefix(name, "deblur"); c.blurred {
			a, err := imaging.NewConvolution2D(y.Shape[0], y.Shape[1], mat.NewDense(kernel.Shape[0], kernel.Shape[1],
				kernel.Data), imaging.ZeroPadded)
			if err != nil {
				t.Fatal(err)
			}
			c.problem.A = a
		}
		if c.iso2 = !strings.HasSuffix(name, "_anisotropic"); c.iso2 {
			c.problem.R = prox.NewVectorialL2(len(y.Data), 2, 1, c.Weight)
		}
		set.Close()
		out = append(out, c)
	}
	return out
}

// The divergences of total variation are those of dense algebra, by every method and derivative.
func TestTotalVariationAgainstTheReference(t *testing.T) {
	if testing.Short() {
		t.Skip("short: an algorithm above the device, shown by the full run")
	}
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		derivatives := []vjp.Derivative{vjp.Implicit, vjp.Unrolled}
		if arraytest.Emulated(t, dev) {
			derivatives = derivatives[:1] // the tape of thousands of iterations is slow there
		}
		for _, c := range variations(t, dev) {
			solvers := []string{"admm"}
			if !c.blurred {
				solvers = append(solvers, "dual")
			}
			for _, solver := range solvers {
				for _, derivative := range derivatives {
					t.Run(fmt.Sprintf("%s/%s/%s", c.name, solver, derivative), func(t *testing.T) {
						arraytest.NoLeak(t, dev)
						s := newSolver(t, solver, c.problem,
							vjp.Options{Tol: 1e-14, MaxIter: 30000, Derivative: derivative})
						got := solved(t, s, dev, c.y)
						defer got.Release()
						j := jacobian(t, got.Linearization, dev, len(c.y))
						trace, fro := mat.Trace(j), mat.Norm(j, 2)
						mu := got.MuHat.ToHost()
						norm2, residual := 0.0, 0.0
						for i, v := range mu {
							norm2 += v * v
							residual += (v - c.y[i]) * (v - c.y[i])
						}
						t.Logf("%d iterations, optimality %.1e, error %.1e, trace %.9f, want %.9f, margin %.3g %v",
							got.Iterations, got.Optimality, got.Error, trace, c.Divergence,
							got.Linearization.Closed().SpaceMargin, got.Choices[len(got.Choices)-2:])
						for _, f := range []struct {
							what      string
							got, want float64
						}{{"divergence", trace, c.Divergence}, {"Frobenius norm", fro * fro, c.Fro2},
							{"residual", residual, c.Residual}, {"||mu_hat||^2", norm2, c.MuHat2}} {
							if !(math.Abs(f.got-f.want) <= 1e-6*f.want) {
								t.Errorf("%s %.9f, want %.9f", f.what, f.got, f.want)
							}
						}
						if known := got.Linearization.Closed(); derivative == vjp.Implicit &&
							(!known.Known || math.Abs(known.Trace-c.Divergence) > 1e-6*c.Divergence) {
							t.Errorf("trace without probes %v %.9f, want %.9f", known.Known, known.Trace, c.Divergence)
						}
					})
				}
			}
		}
	})
}

// The methods keep the contract of methods.
func TestMethodsBehindAnOperatorConform(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		for _, c := range variations(t, dev) {
			y := dev.Alloc(1, len(c.y))
			defer y.Free()
			dev.Upload(y, c.y)
			for _, name := range []string{"dual", "admm"} {
				if c.blurred && name == "dual" {
					continue
				}
				e, _ := solve.Lookup(name)
				m, err := e.New(t.Context(), c.problem, solve.Options{Tol: 1e-12, MaxIter: 30000})
				if err != nil {
					t.Fatal(err)
				}
				if err := solvetest.Check(t.Context(), m, y); err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
				m.Release()
			}
		}
	})
}

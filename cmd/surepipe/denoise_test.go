package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"surepipe/internal/dataio"
	"surepipe/internal/figure"
)

// A photograph with noise at three levels, denoised by wavelet thresholding from a
// specification: the lambda of least SURE has a loss within 3% of the best lambda's. With
// SUREPIPE_PICTURE the middle level is drawn to the file of that name, as in the README.
func TestSweepDenoisesAPhotograph(t *testing.T) {
	const photograph = "../../testdata/camera.png"
	file, err := os.Open(photograph)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	clean, err := dataio.ReadPNG(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	_, spec, _ := command(t, "spec", "wavelet-denoise")
	yaml := filepath.Join(dir, "denoise.yaml")
	if err := os.WriteFile(yaml, []byte(spec), 0o666); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(8, 8))
	for _, sigma := range []float64{0.05, 0.1, 0.2} {
		noisy := dataio.Array{Name: "y", Shape: clean.Shape, Data: make([]float64, len(clean.Data))}
		for i, v := range clean.Data {
			noisy.Data[i] = v + sigma*rng.NormFloat64()
		}
		data, out := filepath.Join(dir, "noisy.npy"), filepath.Join(dir, "out.npy")
		if err := dataio.WriteNPY(data, noisy); err != nil {
			t.Fatal(err)
		}
		status, stdout, stderr := command(t, "sweep", "--spec", yaml, "--data", data, "--mu", photograph,
			"--sigma2", fmt.Sprint(sigma*sigma), "--lambda", fmt.Sprintf("%g:%g:25", sigma/5, 5*sigma), "--json", "--out", out)
		if status != exitDone {
			t.Fatalf("status %d, %s", status, stderr)
		}
		var curve figure.Sweep
		best, chosen := math.Inf(1), 0.0
		for _, text := range strings.Split(strings.TrimSpace(stdout), "\n") {
			var line struct {
				Stage                          string
				Lambda, SURE, Loss, Divergence float64
				StdErr                         float64 `json:"sure_stderr"`
				Minimizer                      *struct{ Loss float64 }
			}
			if err := json.Unmarshal([]byte(text), &line); err != nil {
				t.Fatal(err)
			}
			switch {
			case line.Minimizer != nil:
				chosen = line.Minimizer.Loss
			case line.Stage == "grid" || line.Stage == "refine":
				best = math.Min(best, line.Loss)
				if line.Stage == "grid" {
					d := float64(len(clean.Data))
					curve.Lambda, curve.SURE = append(curve.Lambda, line.Lambda), append(curve.SURE, line.SURE/d)
					curve.StdErr, curve.Loss = append(curve.StdErr, line.StdErr/d), append(curve.Loss, line.Loss/d)
					curve.Divergence = append(curve.Divergence, line.Divergence)
				}
			}
		}
		t.Logf("sigma %g: loss %.4g at SURE's minimizer, %.4g at best", sigma, chosen, best)
		if !(chosen <= 1.03*best) {
			t.Errorf("sigma %g: SURE's minimizer has loss %g, the best lambda %g", sigma, chosen, best)
		}
		if path := os.Getenv("SUREPIPE_PICTURE"); path != "" && sigma == 0.1 {
			estimate := readOnly(t, out)
			curve.Label = "SURE / d"
			image := func(caption string, a dataio.Array) figure.Image {
				return figure.Image{Caption: caption, Rows: a.Shape[0], Cols: a.Shape[1], Pixels: a.Data}
			}
			picture := figure.Images{Curve: &curve, Images: []figure.Image{
				image("noisy, σ = 0.1", noisy), image("λ of least SURE", estimate), image("the truth", clean)}}
			if err := figure.Save(path, picture); err != nil {
				t.Fatal(err)
			}
		}
	}
}

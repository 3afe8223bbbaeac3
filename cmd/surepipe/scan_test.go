package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"surepipe/internal/dataio"
)

// The arrays of MATLAB, HDF5 and NIfTI files serve named problems and specifications.
func TestFilesOfOtherProgramsAreData(t *testing.T) {
	const scans = "../../internal/dataio/testdata/scan/"
	var want any
	for _, data := range []string{"v5.mat:m", "v5z.mat:m", "v73.mat:m", "plain.h5:a/b/deep", "latest.h5:m"} {
		o := object(t, "run", "--problem", "svt", "--data", scans+data, "--lambda", "1", "--sigma2", "1")
		if want == nil {
			want = o["sure"]
		}
		if o["sure"] != want || o["d"] != 12.0 {
			t.Errorf("%s: %v, want sure %v", data, o, want)
		}
	}
	for args, want := range map[string]string{
		"--data " + scans + "v5.mat":     `array "y" is missing`,
		"--data " + scans + "v5.mat:z":   "complex numbers, expected real ones",
		"--data " + scans + "c8.nii":     "complex numbers, expected real ones",
		"--data " + scans + "v5.mat:int": `did you mean "ints"`,
		"--y " + scans + "chunks.h5:lzf": "filter 32000",
	} {
		status, _, stderr := command(t, append([]string{"run", "--problem", "svt", "--lambda", "1"},
			strings.Fields(args)...)...)
		if status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s, want %q", args, status, stderr, want)
		}
	}
}

// The maps of an estimate by patches add up to its divergence and its SURE, which is unbiased.
func TestMapsOfPatchesAddUp(t *testing.T) {
	dir := t.TempDir()
	data, spec, out := filepath.Join(dir, "d.npz"), filepath.Join(dir, "s.yaml"), filepath.Join(dir, "o.npz")
	if status, _, stderr := command(t, "generate", "--problem", "local-low-rank", "--rows", "12", "--cols", "10",
		"--seed", "5", "--out", data); status != exitDone {
		t.Fatal(stderr)
	}
	for _, stride := range []int{4, 2} {
		text := fmt.Sprintf("data: d.npz\noperator: identity\nregularizer: {local-low-rank: {weight: lambda, "+
			"patch: 4, stride: %d}}\nlambda: 11\n", stride)
		if err := os.WriteFile(spec, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		o := object(t, "run", "--spec", spec, "--out", out)
		set, err := dataio.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]any{"degrees_of_freedom": o["divergence"],
			"patch_degrees_of_freedom": o["divergence"], "patch_sure": o["sure"]} {
			if stride == 2 && strings.HasPrefix(name, "patch") {
				if set.Has(name) {
					t.Errorf("%s of patches that overlap", name)
				}
				continue
			}
			a, err := set.Floats(name)
			if err != nil {
				t.Error(err)
				continue
			}
			sum := 0.0
			for _, v := range a.Data {
				sum += v
			}
			if math.Abs(sum-want.(float64)) > 1e-9*math.Abs(sum) || len(a.Shape) != 2 {
				t.Errorf("stride %d: %s of shape %v adds up to %g, want %g", stride, name, a.Shape, sum, want)
			}
		}
		set.Close()
	}
}

// --image-risk adds the risk of the image. With A A* = I it is that of the samples.
func TestImageRiskIsTheProjectedOne(t *testing.T) {
	dir := t.TempDir()
	data, spec := filepath.Join(dir, "mri.npz"), filepath.Join(dir, "mri.yaml")
	if status, _, stderr := command(t, "generate", "--problem", "mri", "--rows", "16", "--out",
		data); status != exitDone {
		t.Fatal(stderr)
	}
	_, text, _ := command(t, "spec", "mri")
	if err := os.WriteFile(spec, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	o := object(t, "run", "--spec", spec, "--data", data, "--image-risk", "--trace", "exact")
	sure, projected := o["sure"].(float64), o["projected_sure"].(float64)
	if probes := o["projected_sure_probe_stderr"].(float64); math.Abs(sure-projected) > 4*probes ||
		math.Abs(o["projected_loss"].(float64)-o["loss"].(float64)) > 1e-9 {
		t.Errorf("SURE %v, projected %v ± %v, losses %v and %v", sure, projected, probes, o["loss"],
			o["projected_loss"])
	}
	if o := object(t, "run", "--spec", spec, "--data", data); o["projected_sure"] != nil {
		t.Error("projected SURE without --image-risk")
	}
	// Angles within 6 degrees leave directions without any data.
	ct := "data: d.npz\noperator: {projection: {angles: [0, 1, 2, 3, 4, 5, 6], detectors: 12}}\nregularizer: {l1: " +
		"1}\nsigma2: 1\n"
	if err := dataio.WriteNPZ(filepath.Join(dir, "d.npz"), dataio.Array{Name: "y", Shape: []int{7, 12},
		Data: make([]float64, 84)}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(spec, []byte(ct), 0o666); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := command(t, "run", "--spec", spec, "--image-risk")
	if status != exitDone || strings.Contains(stdout, "image risk") == strings.Contains(stderr, "too ill-conditioned") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
	for args, want := range map[string]string{
		"--problem lasso --X " + data + ":mask --y " + data + ":sigma2 --lambda 1 --image-risk": "expected",
		"--problem svt --data " + data + ":mask --lambda 1 --image-risk":                        "needs sigma2",
	} {
		if status, _, stderr := command(t, append([]string{"run"},
			strings.Fields(args)...)...); status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s", args, status, stderr)
		}
	}
}

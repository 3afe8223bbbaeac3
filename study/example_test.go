package study_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"surepipe/array"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/study"
)

// A Monte Carlo run that is stopped after two of its samples goes on from its file: the mean of SURE over
// all five is that of a run without an interrupt.
func Example() {
	dir, err := os.MkdirTemp("", "study")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	const sigma2, seed = 0.25, 7
	mu := make([]float64, 8*6)
	for i := range mu {
		mu[i] = float64(i%6) - 2.5
	}
	data := problems.Data{Mu: mu, YShape: []int{8, 6}, Y: problems.Sample(mu, sigma2, seed, -1)}
	dev, err := array.Open("cpu", 0)
	if err != nil {
		panic(err)
	}
	estimator, err := study.Open(context.Background(), study.Options{
		Problem: "svt", Data: data, Hyper: problems.Hyper{Lambda: problems.Absolute(1)},
		Devices:  []array.Device{dev},
		Pipeline: pipeline.Options{Sigma2: sigma2, Seed: seed},
	})
	if err != nil {
		panic(err)
	}
	defer estimator.Close()
	settings := map[string]string{"lambda": "1", "sigma2": "0.25", "seed": "7"}
	run := func(log string, count int) *study.Tally {
		m := &study.MonteCarlo{
			Estimator: estimator, Template: estimator.Result(), Mu: mu, Seed: seed,
			Samples: study.Simulated(mu, data.YShape, sigma2, seed),
			Count:   count, Part: study.Part{End: count},
			File: study.File{Path: filepath.Join(dir, log), Resume: true,
				Header: study.NewMonteCarloHeader(settings, data, estimator.Device())},
		}
		r, err := m.Run(context.Background())
		if err != nil {
			panic(err)
		}
		return r.Tally
	}
	run("samples.jsonl", 2)
	resumed, whole := run("samples.jsonl", 5), run("again.jsonl", 5)
	fmt.Println(resumed.Samples, "samples,", *resumed.MeanSURE == *whole.MeanSURE)
	fmt.Println("SURE - loss within three standard errors of 0:",
		math.Abs(*whole.MeanError) < 3**whole.MeanErrorStdErr)
	// Output:
	// 5 samples, true
	// SURE - loss within three standard errors of 0: true
}

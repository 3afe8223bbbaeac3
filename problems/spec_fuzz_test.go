package problems_test

import (
	"testing"

	"surepipe/array/arraytest"
	"surepipe/problems"
)

// No text makes the parser or the builder panic, or leave anything on a device.
func FuzzSpec(f *testing.F) {
	devices := arraytest.Devices(f)
	for _, name := range problems.SpecNames() {
		text, err := problems.SpecExample(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add("data: {y: [1, 2, 3, 4]}\noperator: {product: [difference, identity]}\nregularizer: {blocks: [{tv1d: 1, " +
		"size: 5}]}\n")
	f.Add("data: {y: [[1, 2], [3, 4]]}\noperator: {hstack: [dct, {scale: {by: 2, operator: " +
		"identity}}]}\nregularizer: {blocks: [{l1: {weight: lambda, unpenalized: [0]}}, nuclear: gamma]}\nlambda: " +
		"0.5max\ngamma: 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := problems.ParseSpec([]byte(text), "fuzz/none/problem.yaml")
		if err != nil {
			return
		}
		data, err := s.Load(problems.SpecFiles{FS: problems.Disk})
		if err != nil || len(data.Y) > 1000 {
			return
		}
		for _, dev := range devices {
			before := dev.Stats().Live
			p, err := problems.New("", dev, data, problems.Hyper{})
			if err == nil {
				p.Release()
			}
			if live := dev.Stats().Live; live != before {
				t.Errorf("%d batches left on %s", live-before, dev.Name())
			}
		}
	})
}

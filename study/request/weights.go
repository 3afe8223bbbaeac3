package request

import (
	"surepipe/problems"
	"surepipe/problems/spec"
	"surepipe/study"
)

// Weights are the weights of the regularizer, as texts: "" for those of the data.
type Weights struct{ Lambda, Lambda2, Gamma string }

// Named are the weights by their names.
func (w *Weights) Named() map[string]*string {
	return spec.ByWeight(&w.Lambda, &w.Lambda2, &w.Gamma)
}

func (w *Weights) hyper() (h problems.Hyper, err error) {
	to := spec.ByWeight(&h.Lambda, &h.Lambda2, &h.Gamma)
	for _, name := range spec.WeightNames() {
		text := *w.Named()[name]
		if text == "" {
			continue
		}
		if *to[name], err = problems.ParseWeight(text); err != nil {
			return h, study.Errorf("--%s is %w", name, err)
		}
	}
	return h, nil
}

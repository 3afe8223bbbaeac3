package request

import (
	"surepipe/problems"
	"surepipe/study"
)

// Weights are the weights of the regularizer, as texts: "" for those of the data.
type Weights struct{ Lambda, Lambda2, Gamma string }

// Named are the weights by their names.
func (w *Weights) Named() map[string]*string {
	return map[string]*string{"lambda": &w.Lambda, "lambda2": &w.Lambda2, "gamma": &w.Gamma}
}

func (w *Weights) hyper() (h problems.Hyper, err error) {
	to := map[string]*problems.Weight{"lambda": &h.Lambda, "lambda2": &h.Lambda2, "gamma": &h.Gamma}
	for _, name := range study.WeightNames {
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

package main

import (
	"github.com/spf13/pflag"

	"surepipe/problems"
)

// weightFlags are the weights of the regularizer, as texts: "" for those of the data.
type weightFlags struct{ lambda, lambda2, gamma string }

func (f *weightFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.lambda, "lambda", "", "weight of the regularizer: a number, inf, or a multiple of the "+
		"smallest value that gives b = 0, such as 0.25max (default: the file's)")
	flags.StringVar(&f.lambda2, "lambda2", "", "elastic net: weight of 1/2 ||b||^2, a number (default: the "+
		"file's); a specification may use all three weights in any way")
	flags.StringVar(&f.gamma, "gamma", "", "robust PCA: weight of ||S||_1, as --lambda (default: the file's)")
}

// hyper parses the weights.
func (f *weightFlags) hyper() (h problems.Hyper, err error) {
	for _, w := range []struct {
		flag, text string
		to         *problems.Weight
	}{{"--lambda", f.lambda, &h.Lambda}, {"--lambda2", f.lambda2, &h.Lambda2}, {"--gamma", f.gamma, &h.Gamma}} {
		if w.text == "" {
			continue
		}
		if *w.to, err = problems.ParseWeight(w.text); err != nil {
			return h, usagef("%s is %q, expected a positive number, inf, or a multiple such as 0.25max", w.flag,
				w.text)
		}
	}
	return h, nil
}

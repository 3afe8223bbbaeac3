package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"surepipe/loss"
	"surepipe/problems"
	"surepipe/risk"
	"surepipe/study"
)

// registerLoss registers the flags of the loss and of the parameters of the losses.
func (f *estimatorFlags) registerLoss(flags *pflag.FlagSet) {
	var names []string
	f.lossParameters = map[string]*float64{}
	for _, k := range loss.Kinds() {
		text := k.Name
		if k.Help != "" {
			text += " (" + k.Help + ")"
		}
		names = append(names, text)
		if k.Parameter != nil {
			f.lossParameters[k.Name] = flags.Float64(parameterFlag(k), 0, k.Parameter.Help)
		}
	}
	flags.StringVar(&f.Loss.Name, "loss", "", "the loss: "+strings.Join(names, ", ")+"; with a loss other than "+
		"the squared one mu_hat is the linear predictor A b, and leave-one-out takes the place of SURE (default: "+
		"the specification's, or squared)")
}

// lossFlags are the names of the flags of the loss and its parameters.
func lossFlags() []string {
	names := []string{"loss"}
	for _, k := range loss.Kinds() {
		if k.Parameter != nil {
			names = append(names, parameterFlag(k))
		}
	}
	return names
}

// parameterFlag is the name of the flag of a loss's parameter.
func parameterFlag(k loss.Kind) string { return k.Name + "-" + k.Parameter.Name }

// lossHelp explains losses other than the squared one.
const lossHelp = `With --loss other than squared mu_hat is the linear predictor A b, and the output has

  loss_name      the loss (the key "loss" is ||mu_hat - mu||^2)
  loss_value     the loss at mu_hat, for logistic and poisson minus the logarithm of the
                 likelihood without terms of y alone; deviance is twice its excess over
                 the least that any mu_hat could reach
  divergence     the degrees of freedom df: the trace of the derivative of the weighted
                 least squares problem that this one is at its solution
  alo            leave-one-out, always on: the mean loss of an observation that is left
                 out, by one Newton step towards the fit to all others
  aic, bic       2 loss_value + 2 df, 2 loss_value + log(d) df; not for huber, whose
                 scale is not known

and --out also holds fitted, the estimate of the mean of y. mu of the data is not used with
logistic and poisson, where mu_hat is no estimate of it. SURE, gcv and sigma2_df are for
the squared loss alone. 0.1max refers to the weight at which only the intercept is left.`

// checkLoss rejects a loss that is none, and what is defined for the squared loss alone.
func (f *estimatorFlags) checkLoss(cmd *cobra.Command) error {
	changed := cmd.Flags().Changed
	l := f.Loss
	if l.Name == "" && f.Specification != nil {
		l = f.Specification.Loss
	}
	for _, k := range loss.Kinds() {
		if k.Parameter == nil {
			continue
		}
		flag, value := parameterFlag(k), *f.lossParameters[k.Name]
		switch {
		case changed(flag) && f.Loss.Name != k.Name:
			return usagef("--%s is %g, but it is for --loss %s", flag, value, k.Name)
		case f.Loss.Name == k.Name && !changed(flag):
			return usagef("--%s is missing, which --loss %s needs: a positive number %s", flag, k.Name,
				k.Parameter.Unit)
		case f.Loss.Name == k.Name:
			if err := k.Check(value); err != nil {
				return usagef("--%s is %g: %w", flag, value, err)
			}
			f.Loss.Parameter = value
			l = f.Loss
		}
	}
	if err := l.Check(); err != nil {
		return usagef("--loss is %q: %w", l.Name, err)
	}
	switch {
	case l.Squared():
		return nil
	case changed("sigma2"):
		return usagef("--sigma2 is given, but it is for SURE, which is defined for the squared loss and normal "+
			"noise, and the loss is %s: leave-one-out, alo, takes its place and needs no sigma2", l.Name)
	case f.verify:
		return usagef("--verify is for the squared loss, and the loss is %s", l.Name)
	case f.derivative == "unrolled":
		return usagef("--derivative is unrolled, which needs the squared loss, and the loss is %s: expected auto "+
			"or implicit", l.Name)
	}
	f.Sigma2Method = "" // the specification's
	return nil
}

// forgetNoise drops the sigma2 of the data where the loss is not squared.
func (f *estimatorFlags) forgetNoise(cmd *cobra.Command, data *problems.Data) {
	if data.Sigma2 == nil || f.LossOf().Squared() {
		return
	}
	data.Sigma2, f.Variance.Estimate = nil, nil
	f.note(cmd, study.NoteNoSigma2, "%s has sigma2, which the %s loss has no use for: SURE is for the squared "+
		"loss, and leave-one-out takes its place", f.Name(), f.LossOf().Name)
}

// chooseForLoss is the criterion of a loss that is not squared.
func (f *sweepFlags) chooseForLoss() error {
	l := f.LossOf()
	if l.Squared() {
		return nil
	}
	best := risk.DefaultCriterion(0, false)
	if f.criterion == "" {
		f.criterion = best
	}
	known, err := l.Structure()
	if err != nil || f.criterion.Rule().Serves(false, known.Likelihood) {
		return err
	}
	return usagef("--criterion is %s, which is not defined for the %s loss: expected %s, the error of predicting "+
		"an observation that is left out", f.criterion, l.Name, best)
}

// writeLoss prints it as rows of a table.
func writeLoss(r *study.Result, w io.Writer) {
	if r.LossValue == nil {
		return
	}
	deviance := ""
	if r.Deviance != nil {
		deviance = fmt.Sprintf("deviance %.6g", *r.Deviance)
	}
	fmt.Fprintf(w, "loss\t%.6g\t%s\n", *r.LossValue, deviance)
}

// lossColumns are the columns of a .csv file for the residual, or for what takes its place.
func (r *sweepReport) lossColumns() []string {
	if r.lines[0].Residual == nil {
		return []string{"loss_value", "deviance"}
	}
	return []string{"residual"}
}

package main

import "surepipe/cmd/surepipe/internal/cli"

// topics are the parts of the help that run, sweep and montecarlo share.
func topics() []cli.Topic {
	return []cli.Topic{
		{Name: "data", Short: "the arrays of each problem, the formats of files, the estimators of sigma2",
			Text:  func() string { return helpText("data") },
			Flags: []string{"X", "y", "D", "mu", "effects"}},
		{Name: "tables", Short: "tables with a header line",
			Text: func() string { return helpText("tables") },
			Flags: []string{"index", "drop", "only", "categorical", "weights",
				"offset", "exposure", "trials", "time", "start", "strata", "success", "na", "missing",
				"factors", "lower", "upper", "column-groups"}},
		{Name: "criteria", Short: "SURE and its relatives, by which weights are chosen",
			Text: func() string { return criteriaHelp() + "\n\n" + lossesHelp() },
			Flags: []string{"alo", "groups", "blocks",
				"folds", "repeats", "forward", "audit", "image-risk"}},
		{Name: "black-boxes", Short: "programs of one's own as estimators",
			Text:  func() string { return helpText("exec") + "\n\n" + helpText("exec-many") },
			Flags: []string{"exec", "divergence", "eps", "exec-timeout"}},
		{Name: "storage", Short: "matrices larger than memory, memory, cards",
			Text:  func() string { return helpText("storage") },
			Flags: []string{"storage", "memory", "device"}},
		{Name: "numerics", Short: "solvers, tolerances, estimators of the trace",
			Text: func() string { return helpText("numerics") },
			Flags: []string{"solver", "derivative", "tol", "max-iter", "trace",
				"queries", "trace-error", "seed", "verify", "explain", "parallel", "probe-batch"}},
	}
}

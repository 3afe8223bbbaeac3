package main

import "surepipe/cmd/surepipe/internal/cli"

// topics are the parts of the help that run, sweep and montecarlo share.
func topics() []cli.Topic {
	return []cli.Topic{
		{Name: "data", Short: "the arrays of each problem, the formats of files, the estimators of sigma2",
			Text:  arraysHelp,
			Flags: []string{"X", "y", "D", "mu", "effects"}},
		{Name: "tables", Short: "tables with a header line",
			Text: func() string { return tableHelp },
			Flags: []string{"index", "drop", "only", "categorical", "weights",
				"offset", "exposure", "trials", "time", "start", "strata", "success", "na", "missing",
				"factors", "lower", "upper", "column-groups"}},
		{Name: "criteria", Short: "SURE and its relatives, by which weights are chosen",
			Text: func() string { return criteriaHelp() + "\n\n" + lossesHelp() },
			Flags: []string{"alo", "groups", "blocks",
				"folds", "repeats", "forward", "audit", "image-risk"}},
		{Name: "black-boxes", Short: "programs of one's own as estimators",
			Text:  func() string { return execHelp + "\n" + execMonteCarloHelp },
			Flags: []string{"exec", "divergence", "eps", "exec-timeout"}},
		{Name: "storage", Short: "matrices larger than memory, memory, cards",
			Text:  func() string { return storageHelp },
			Flags: []string{"storage", "memory", "device"}},
		{Name: "numerics", Short: "solvers, tolerances, estimators of the trace",
			Text: func() string { return numericsHelp },
			Flags: []string{"solver", "derivative", "tol", "max-iter", "trace",
				"queries", "trace-error", "seed", "verify", "explain", "parallel", "probe-batch"}},
	}
}

// numericsHelp says which choices the flags of the numerics overrule.
const numericsHelp = `What the structure of a problem asks for is chosen: the solver, the derivative, the estimator of
the trace. --explain prints the choices with their reasons. The solution is within a stated
distance of the exact one, where a duality gap is known, and the trace of the derivative has a
closed form, or an error that is part of SURE's. These flags are for comparisons, and for problems
of your own.
`

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/study"
)

// citations are the works that the results rest on, and what each is the source of, in BibTeX.
const citations = `%% the program
@software{surepipe,
  title   = {surepipe: risk estimates for convex-regularized estimators},
  version = {%s}
}

%% the method: SURE of a convex-regularized estimator from products with its derivative
@article{NobelCandesBoyd2023,
  author  = {Nobel, Parth and Cand{\` + "`" + `e}s, Emmanuel and Boyd, Stephen},
  title   = {Tractable Evaluation of {Stein's} Unbiased Risk Estimate with Convex Regularizers},
  journal = {IEEE Transactions on Signal Processing},
  volume  = {71},
  year    = {2023}
}

%% sure
@article{Stein1981,
  author  = {Stein, Charles M.},
  title   = {Estimation of the Mean of a Multivariate Normal Distribution},
  journal = {The Annals of Statistics},
  volume  = {9},
  number  = {6},
  pages   = {1135--1151},
  year    = {1981}
}

%% sure_stderr
@article{BellecZhang2021,
  author  = {Bellec, Pierre C. and Zhang, Cun-Hui},
  title   = {Second-Order {Stein}: {SURE} for {SURE} and Other Applications in High-Dimensional Inference},
  journal = {The Annals of Statistics},
  volume  = {49},
  number  = {4},
  pages   = {1864--1903},
  year    = {2021}
}

%% --trace hutch++
@inproceedings{MeyerMuscoMuscoWoodruff2021,
  author    = {Meyer, Raphael A. and Musco, Cameron and Musco, Christopher and Woodruff, David P.},
  title     = {Hutch++: Optimal Stochastic Trace Estimation},
  booktitle = {Symposium on Simplicity in Algorithms},
  pages     = {142--155},
  year      = {2021}
}

%% gcv
@article{GolubHeathWahba1979,
  author  = {Golub, Gene H. and Heath, Michael and Wahba, Grace},
  title   = {Generalized Cross-Validation as a Method for Choosing a Good Ridge Parameter},
  journal = {Technometrics},
  volume  = {21},
  number  = {2},
  pages   = {215--223},
  year    = {1979}
}

%% alo
@misc{NobelLeJeuneCandes2024,
  author = {Nobel, Parth and LeJeune, Daniel and Cand{\` + "`" + `e}s, Emmanuel},
  title  = {{RandALO}: Out-of-Sample Risk Estimation in No Time Flat},
  note   = {arXiv preprint},
  year   = {2024}
}
`

func newCite() *cobra.Command {
	return &cobra.Command{
		Use:   "cite",
		Short: "Print how to cite the program and its methods",
		Long: `Prints references in BibTeX: the program at this version, the method, and the source of
each quantity that the results name.`,
		Example: "  surepipe cite > surepipe.bib",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), citations, study.Version())
			return err
		},
	}
}

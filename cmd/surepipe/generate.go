package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pbnjay/memory"
	"github.com/spf13/cobra"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/problems"
)

// generators lists the problems that generate has data sets for.
var generators = []string{"lasso", "matrix-completion", "robust-pca", "svt", "tv1d"}

// generateFlags are the flags of surepipe generate.
type generateFlags struct {
	problem, out     string
	d, p, rows, cols int
	seed             uint64
}

func newGenerate() *cobra.Command {
	var f generateFlags
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Write one of the paper's data sets, or one like them",
		Long: `Draws a data set as in section III of Nobel, Candes and Boyd, "Tractable
evaluation of Stein's unbiased risk estimate with convex regularizers", with the
true mean mu, sigma2 = 2 and the paper's weights. The weights are computed from
another, independent draw of y, so that SURE at the y in the file is exactly unbiased.

  lasso               d x p standard normal X, d/20 equal nonzeros, 80% of E||y||^2
                      is signal; lambda = 0.1 lambda_max. Serves all regressions.
  matrix-completion   rank max(5, 0.02 n), singular values uniform in [0, n], 10% of
                      the m x n entries observed; lambda = 0.25 lambda_max
  robust-pca          the same matrix plus max(10, 1e-4 m n) entries uniform in
                      [0, 100]; lambda = 0.16 lambda_max, gamma = 0.057 gamma_max
  svt                 the same matrix, all observed; lambda = sigma (sqrt m + sqrt n)
  tv1d                d values, constant on d/50 pieces (at least 2), levels uniform in
                      [0, 10]; lambda = sigma sqrt(d / pieces) / 2`,
		Example: `  surepipe generate --problem lasso --d 500 --out lasso.npz
  surepipe generate --problem matrix-completion --rows 200 --cols 100 --seed 7 --out mc.npz`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.problem, "problem", "", strings.Join(generators, ", "))
	flags.IntVar(&f.d, "d", 0, "lasso: observations; tv1d: length of the sequence")
	flags.IntVar(&f.p, "p", 0, "lasso: variables (default 2 d)")
	flags.IntVar(&f.rows, "rows", 0, "matrix problems: m")
	flags.IntVar(&f.cols, "cols", 0, "matrix problems: n")
	flags.Uint64Var(&f.seed, "seed", 0, "seed of all random draws")
	flags.StringVar(&f.out, "out", "", "the .npz `file` to write")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("problem", cobra.FixedCompletions(generators, cobra.ShellCompDirectiveNoFileComp)))
	cobra.CheckErr(cmd.MarkFlagFilename("out", "npz"))
	return cmd
}

// check refuses flags that do not go together, and sizes that are too large.
func (f *generateFlags) check(cmd *cobra.Command) error {
	if !slices.Contains(generators, f.problem) {
		return usagef("--problem is %q, expected one of %s", f.problem, strings.Join(generators, ", "))
	}
	regression, sequence := f.problem == "lasso", f.problem == "tv1d"
	for _, flag := range []struct {
		name  string
		value int
		used  bool
	}{{"d", f.d, regression || sequence}, {"p", f.p, regression}, {"rows", f.rows, !regression && !sequence}, {"cols", f.cols, !regression && !sequence}} {
		switch given := cmd.Flags().Changed(flag.name); {
		case given && !flag.used:
			return usagef("--%s has no meaning for %s", flag.name, f.problem)
		case given && flag.value < 1:
			return usagef("--%s is %d, expected at least 1", flag.name, flag.value)
		case !given && flag.used && flag.name != "p":
			return usagef("--%s is missing for %s", flag.name, f.problem)
		}
	}
	if f.out == "" {
		return usagef("--out is missing, expected the .npz file to write")
	}
	if err := checkWritable(f.out); err != nil {
		return err
	}
	if f.p == 0 {
		f.p = 2 * f.d
	}
	size := float64(f.d) * float64(f.p)
	if sequence {
		size = float64(f.d)
	} else if !regression {
		size = float64(f.rows) * float64(f.cols)
	}
	if 8*size > float64(memory.TotalMemory()) {
		return usagef("%s: the data take %.3g GB, more than this machine's memory", f.problem, 8*size/1e9)
	}
	return nil
}

func (f *generateFlags) run(cmd *cobra.Command) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	if err := array.UseNative(); err != nil {
		return usageError{err}
	}
	data, err := generate(f.problem, f.d, f.p, f.rows, f.cols, f.seed)
	if err != nil {
		return usagef("%s: %w", f.problem, err)
	}
	if err := cmd.Context().Err(); err != nil {
		return err
	}
	if err := dataio.WriteNPZ(f.out, dataArrays(data)...); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: wrote %s; try surepipe run --problem %s --data %s\n", f.out, f.problem, f.out)
	return nil
}

func generate(problem string, d, p, rows, cols int, seed uint64) (problems.Data, error) {
	switch problem {
	case "lasso":
		return problems.GenerateLasso(d, p, seed)
	case "matrix-completion":
		return problems.GenerateMatrixCompletion(rows, cols, seed)
	case "robust-pca":
		return problems.GenerateRobustPCA(rows, cols, seed)
	case "tv1d":
		return problems.GenerateTV1D(d, seed)
	default:
		return problems.GenerateSVT(rows, cols, seed)
	}
}

// dataArrays lays data out as the file's arrays.
func dataArrays(data problems.Data) []dataio.Array {
	arrays := []dataio.Array{
		{Name: "y", Shape: data.YShape, Data: data.Y},
		{Name: "mu", Shape: data.YShape, Data: data.Mu},
	}
	if data.X != nil {
		d, p := data.X.Dims()
		arrays = append(arrays, dataio.Array{Name: "X", Shape: []int{d, p}, Data: data.X.RawMatrix().Data})
	}
	ints := func(name string, values []int) {
		if values == nil {
			return
		}
		v := make([]int64, len(values))
		for i, x := range values {
			v[i] = int64(x)
		}
		arrays = append(arrays, dataio.Array{Name: name, Shape: []int{len(v)}, Ints: v})
	}
	ints("indices", data.Indices)
	ints("shape", data.Shape)
	for _, s := range []struct {
		name  string
		value *float64
	}{{"sigma2", data.Sigma2}, {"lambda", data.Lambda}, {"lambda2", data.Lambda2}, {"gamma", data.Gamma}} {
		if s.value != nil {
			arrays = append(arrays, dataio.Array{Name: s.name, Data: []float64{*s.value}})
		}
	}
	return arrays
}

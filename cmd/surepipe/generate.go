package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/lists"
	"surepipe/internal/stored"
	"surepipe/problems"
	"surepipe/study"
)

// generators lists the problems that generate has data sets for.
func generators() []problems.Named {
	return slices.DeleteFunc(problems.Registered(), func(n problems.Named) bool { return n.Generator == nil })
}

func phantom(name string) (p problems.Phantom, ok bool) {
	for _, p := range problems.Phantoms() {
		if p.Name == name {
			return p, true
		}
	}
	return p, false
}

func drawable() []string {
	phantoms := lists.Map(problems.Phantoms(), func(p problems.Phantom) string { return p.Name })
	return append(namesOf(generators()), phantoms...)
}

func namesOf(named []problems.Named) []string {
	return lists.Map(named, func(n problems.Named) string { return n.Name })
}

func generateHelp() string {
	var s strings.Builder
	describe := func(name, help string) {
		for line := range strings.SplitSeq(help, "\n") {
			fmt.Fprintf(&s, "\n  %-19s %s", name, line)
			name = ""
		}
	}
	for _, n := range generators() {
		describe(n.Name, n.Generator.Help)
	}
	s.WriteString("\n\nFor the specifications of these names (surepipe spec ct), with the true image:\n")
	for _, p := range problems.Phantoms() {
		describe(p.Name, p.Help)
	}
	return s.String()
}

// sizeNames are the flags of the sizes that generators take.
var sizeNames = []string{"d", "p", "rows", "cols", "entries", "rank"}

type generateFlags struct {
	problem, out string
	// sizes are the flags of sizeNames.
	sizes [6]int
	seed  uint64
	// nonzeros and single are of the LASSO's data.
	nonzeros int
	single   bool
	// from is a file to which noise of standard deviation sigma is added.
	from  string
	sigma float64
}

func newGenerate() *cobra.Command {
	var f generateFlags
	known := drawable()
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Write one of the paper's data sets, or one like them",
		Long: `Draws a data set as in section III of Nobel, Candes and Boyd, "Tractable
evaluation of Stein's unbiased risk estimate with convex regularizers", with the
true mean mu, sigma2 = 2 and the paper's weights. The weights are computed from
another, independent draw of y, so that SURE at the y in the file is exactly unbiased.
` + generateHelp() + `
X of regressions may be larger than memory: it is then written row by row as it is drawn, with
the same values and lambda the same up to rounding. It can be used where it lies (surepipe run
--storage mapped).

With --from it adds white normal noise of standard deviation --sigma to an image or an
array instead. A .npz file then holds y, mu and sigma2, a .npy or .csv file y, and so
does a .tif file, in floating point numbers of 32 bits. A .png file has 16 bits and no
values outside [0, 1]: what is clipped there is not normal.`,
		Example: `  surepipe generate --problem lasso --d 500 --out lasso.npz
  surepipe generate --problem matrix-completion --rows 200 --cols 100 --seed 7 --out mc.npz
  surepipe generate --problem lasso --d 50000 --p 100000 --nonzeros 100 --out large.npz
  surepipe generate --problem ct --rows 128 --d 90 --out ct.npz
  surepipe generate --from photo.png --sigma 0.1 --seed 1 --out noisy.tif`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cli.Bind(cmd, cli.Flag{Name: "problem", To: &f.problem, Usage: strings.Join(known, ", "), Values: known})
	for i, usage := range []string{"number of observations, length of a sequence, or number of angles",
		"regressions: number of variables (default 2 d)", "matrix problems: m; ct and mri: pixels a side",
		"matrix problems: n", "matrix-completion: the number of observed entries, in rows and columns of " +
			"power-law degrees", "with --entries: the rank of the signal (default 10)"} {
		cli.Bind(cmd, cli.Flag{Name: sizeNames[i], To: &f.sizes[i], Usage: usage})
	}
	cli.Bind(cmd,
		cli.Flag{Name: "nonzeros", To: &f.nonzeros, Usage: "regressions: number of nonzero coefficients (default " +
			"d/20)"},
		cli.Flag{Name: "float32", To: &f.single, Usage: "regressions: write X as float32, to which it is rounded " +
			"before y is drawn; matrix-completion: write y and mu as float32, two thirds of the file"},
		cli.Flag{Name: "seed", To: &f.seed, Usage: "seed of all random draws"},
		cli.Flag{Name: "from", To: &f.from, Usage: "a `file` with an image or an array to add noise to, in place of " +
			"--problem", Role: cli.Reads, Extensions: []string{"png", "jpg", "tif", "npy", "csv"}},
		cli.Flag{Name: "sigma", To: &f.sigma, Usage: "with --from: the standard deviation of the noise; an image's " +
			"values lie in [0, 1]"},
		cli.Flag{Name: "out", To: &f.out, Usage: "the .npz `file` to write; for matrix-completion also .csv, a " +
			"table of row, column and value; with --from also .npy, .csv, .tif or .png", Role: cli.Writes,
			Extensions: []string{"npz", "npy", "tif", "png"}})
	return cmd
}

// drawing draws the arrays, writes the file and reports it, once the flags have been checked.
type drawing func() error

// check rejects flags that contradict each other, and sizes that are too large.
func (f *generateFlags) check(cmd *cobra.Command) (drawing, error) {
	known := drawable()
	if !slices.Contains(known, f.problem) {
		return nil, study.Errorf("--problem is %q, expected one of %s", f.problem, strings.Join(known, ", "))
	}
	if err := f.checkRows(cmd); err != nil {
		return nil, err
	}
	takes, optional, numbers, drawArrays := f.drawer()
	sizes, err := generateSizes(cmd, f.problem, takes, optional, f.sizes[:])
	if err != nil {
		return nil, err
	}
	if f.out == "" {
		return nil, study.Errorf("--out is missing, expected the .npz file to write")
	}
	if isTable := f.writesTable(); isTable && len(optional) == 0 {
		return nil, study.Errorf("--out is %q, but only the entries of matrix-completion are written as a table: "+
			"expected a name that ends in .npz", f.out)
	}
	if rows, err := f.rows(cmd, sizes); rows != nil || err != nil {
		return rows, err
	}
	if err := stored.Fits("a data set of this size", 8*numbers(sizes)); err != nil {
		return nil, study.Errorf("%s: %w", f.problem, err)
	}
	return func() error {
		arrays, err := drawArrays(sizes, f.seed)
		if err != nil {
			return study.Errorf("%s: %w", f.problem, err)
		}
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		if f.writesTable() {
			return f.writeTable(cmd, arrays)
		}
		if err := dataio.WriteNPZ(f.out, arrays...); err != nil {
			return err
		}
		f.wrote(cmd, f.try())
		return nil
	}, nil
}

func (f *generateFlags) drawer() (takes, optional []string, numbers func(sizes []int) float64,
	draw func(sizes []int, seed uint64) ([]dataio.Array, error)) {
	if p, ok := phantom(f.problem); ok {
		return p.Sizes, nil, p.Numbers, p.Draw
	}
	named, _ := problems.Lookup(f.problem)
	if numbers = named.Generator.Numbers; numbers == nil {
		numbers = func(sizes []int) float64 {
			product := 1.0
			for _, n := range sizes {
				product *= float64(n)
			}
			return product
		}
	}
	return named.Generator.Sizes, named.Generator.Optional, numbers,
		func(sizes []int, seed uint64) ([]dataio.Array, error) {
			data, err := named.Generator.Draw(sizes, seed)
			if f.single {
				return single(dataArrays(data)), err
			}
			return dataArrays(data), err
		}
}

func (f *generateFlags) run(cmd *cobra.Command) error {
	if cmd.Flags().Changed("from") || cmd.Flags().Changed("sigma") {
		return f.addNoise(cmd)
	}
	draw, err := f.check(cmd)
	if err != nil {
		return err
	}
	if err := array.UseNative(); err != nil {
		return study.Bad(err)
	}
	return draw()
}

func (f *generateFlags) try() string {
	if _, ok := phantom(f.problem); ok {
		return fmt.Sprintf("surepipe spec %s > %s.yaml; surepipe run --spec %s.yaml --data %s", f.problem,
			f.problem, f.problem, f.out)
	}
	return fmt.Sprintf("surepipe run --problem %s --data %s", f.problem, f.out)
}

func (f *generateFlags) wrote(cmd *cobra.Command, try string) {
	fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: wrote %s; try %s\n", f.out, try)
}

// generateSizes are the sizes that a generator takes, from the flags of sizeNames. p is 2 d where
// it is not given, and optional ones are 0.
func generateSizes(cmd *cobra.Command, problem string, takes, optional []string, given []int) (sizes []int,
	err error) {
	for i, name := range sizeNames {
		needed := slices.Contains(takes, name)
		used := needed || slices.Contains(optional, name)
		switch changed := cmd.Flags().Changed(name); {
		case changed && !used:
			return nil, study.Errorf("--%s does not apply to %s", name, problem)
		case changed && given[i] < 1:
			return nil, study.Errorf("--%s is %d, expected at least 1", name, given[i])
		case !changed && needed && name != "p":
			return nil, study.Errorf("--%s is missing for %s", name, problem)
		}
	}
	for _, name := range takes {
		size := given[slices.Index(sizeNames, name)]
		if name == "p" && size == 0 {
			size = 2 * given[slices.Index(sizeNames, "d")]
		}
		sizes = append(sizes, size)
	}
	for _, name := range optional {
		sizes = append(sizes, given[slices.Index(sizeNames, name)])
	}
	return sizes, nil
}

func generate(problem string, rows, cols int, seed uint64) (problems.Data, error) {
	named, _ := problems.Lookup(problem)
	return named.Generator.Draw([]int{rows, cols}, seed)
}

func dataArrays(data problems.Data) []dataio.Array {
	arrays := []dataio.Array{
		{Name: "y", Shape: data.YShape, Data: data.Y},
		{Name: "mu", Shape: data.YShape, Data: data.Mu},
	}
	if data.X != nil {
		d, p := data.X.Dims()
		arrays = append(arrays, dataio.Array{Name: "X", Shape: []int{d, p}, Data: data.X.(*mat.Dense).RawMatrix().Data})
	}
	ints := func(name string, values []int) {
		if values != nil {
			arrays = append(arrays, ndarray.OfIntegers(name, values))
		}
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

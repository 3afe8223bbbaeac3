package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"surepipe/array"
	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/internal/dataio"
	"surepipe/internal/lists"
	"surepipe/internal/stored"
	"surepipe/problems"
	"surepipe/study"
)

func generator(name string) (g problems.Generator, ok bool) {
	return lists.Find(problems.Generators(), func(g problems.Generator) bool { return g.Name == name })
}

func generateHelp() string {
	var s strings.Builder
	scanner := false
	for _, g := range problems.Generators() {
		if g.Scanner && !scanner {
			scanner = true
			s.WriteString("\n\nFor the specifications of these names (surepipe spec ct), with the true image:\n")
		}
		name := g.Name
		for line := range strings.SplitSeq(g.Help, "\n") {
			fmt.Fprintf(&s, "\n  %-19s %s", name, line)
			name = ""
		}
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
	known := lists.Map(problems.Generators(), func(g problems.Generator) string { return g.Name })
	cmd := &cobra.Command{
		Use:     "generate",
		Short:   "Write one of the paper's data sets, or one like them",
		Long:    helpText("generate"),
		Example: helpText("generate.examples"),
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd, known) },
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
func (f *generateFlags) check(cmd *cobra.Command, known []string) (drawing, error) {
	g, ok := generator(f.problem)
	if !ok {
		return nil, study.Errorf("--problem is %q, expected one of %s", f.problem, strings.Join(known, ", "))
	}
	if err := f.checkRows(cmd); err != nil {
		return nil, err
	}
	sizes, err := generateSizes(cmd, g, f.sizes[:])
	switch {
	case err != nil:
		return nil, err
	case f.out == "":
		return nil, study.Errorf("--out is missing, expected the .npz file to write")
	case f.writesTable() && g.Optional == nil:
		return nil, study.Errorf("--out is %q, but only the entries of matrix-completion are written as a table: "+
			"expected a name that ends in .npz", f.out)
	}
	if rows, err := f.rows(cmd, sizes); rows != nil || err != nil {
		return rows, err
	}
	if err := stored.Fits("a data set of this size", 8*g.Numbers(sizes)); err != nil {
		return nil, study.Errorf("%s: %w", f.problem, err)
	}
	return func() error {
		arrays, err := g.Draw(sizes, f.seed)
		if err != nil {
			return study.Errorf("%s: %w", f.problem, err)
		}
		if f.single {
			single(arrays)
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
		f.wrote(cmd, f.try(g))
		return nil
	}, nil
}

func (f *generateFlags) run(cmd *cobra.Command, known []string) error {
	if cmd.Flags().Changed("from") || cmd.Flags().Changed("sigma") {
		return f.addNoise(cmd)
	}
	draw, err := f.check(cmd, known)
	if err != nil {
		return err
	}
	if err := array.UseNative(); err != nil {
		return study.Bad(err)
	}
	return draw()
}

func (f *generateFlags) try(g problems.Generator) string {
	if g.Scanner {
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
func generateSizes(cmd *cobra.Command, g problems.Generator, given []int) (sizes []int, err error) {
	for i, name := range sizeNames {
		needed := slices.Contains(g.Sizes, name)
		switch changed := cmd.Flags().Changed(name); {
		case changed && !needed && !slices.Contains(g.Optional, name):
			return nil, study.Errorf("--%s does not apply to %s", name, g.Name)
		case changed && given[i] < 1:
			return nil, study.Errorf("--%s is %d, expected at least 1", name, given[i])
		case !changed && needed && name != "p":
			return nil, study.Errorf("--%s is missing for %s", name, g.Name)
		}
	}
	for _, name := range slices.Concat(g.Sizes, g.Optional) {
		size := given[slices.Index(sizeNames, name)]
		if name == "p" && size == 0 {
			size = 2 * given[slices.Index(sizeNames, "d")]
		}
		sizes = append(sizes, size)
	}
	return sizes, nil
}

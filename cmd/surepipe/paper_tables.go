package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"surepipe"
	"surepipe/cmd/surepipe/internal/bar"
	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/hutch"
	"surepipe/internal/dataio"
	"surepipe/internal/stored"
	"surepipe/problems"
	"surepipe/study"
)

// paperValues are the paper's values for a row: SURE per coordinate by SURE-CR and by CVXPYlayers
// with their seconds on a V100, the closed form for LASSO, and the Monte Carlo risk. 0 stands for a
// value that the paper does not give.
type paperValues struct {
	SURE          float64 `json:"sure"`
	Seconds       float64 `json:"seconds"`
	LayersSURE    float64 `json:"cvxpylayers_sure,omitempty"`
	LayersSeconds float64 `json:"cvxpylayers_seconds,omitempty"`
	Analytic      float64 `json:"analytic_sure,omitempty"`
	Risk          float64 `json:"risk"`
}

// paperRow is one row of the paper's Tables I to III. LASSO has rows observations of cols
// variables.
type paperRow struct {
	problem    string
	rows, cols int
	paper      paperValues
}

// paperRows are the rows of the tables, in the paper's order.
var paperRows = []paperRow{
	{"lasso", 250, 500, paperValues{0.51, 2.54, 0.51, 252, 0.52, 0.48}},
	{"lasso", 500, 1000, paperValues{0.37, 2.89, 0.43, 1929, 0.40, 0.50}},
	{"lasso", 2500, 5000, paperValues{0.58, 3.10, 0, 0, 0.57, 0.51}},
	{"lasso", 5000, 10000, paperValues{0.47, 9.19, 0, 0, 0.46, 0.53}},
	{"lasso", 25000, 50000, paperValues{0.58, 287, 0, 0, 0.58, 0.54}},
	{"matrix-completion", 20, 10, paperValues{1.16, 5.20, 1.15, 1.51, 0, 1.33}},
	{"matrix-completion", 100, 50, paperValues{0.88, 49.9, 0.86, 2246, 0, 0.96}},
	{"matrix-completion", 200, 100, paperValues{0.84, 45.1, 0.84, 15866, 0, 0.90}},
	{"matrix-completion", 1000, 500, paperValues{1.69, 41.2, 0, 0, 0, 1.70}},
	{"matrix-completion", 2000, 1000, paperValues{0.74, 114, 0, 0, 0, 0.74}},
	{"robust-pca", 10, 10, paperValues{5.13, 16.0, 5.14, 1.15, 0, 5.01}},
	{"robust-pca", 50, 50, paperValues{0.53, 19.9, 0.53, 115, 0, 0.59}},
	{"robust-pca", 100, 100, paperValues{0.31, 21.5, 0.31, 1116, 0, 0.34}},
	{"robust-pca", 500, 500, paperValues{0.27, 22.1, 0, 0, 0, 0.27}},
	{"robust-pca", 1000, 1000, paperValues{0.44, 31.4, 0, 0, 0, 0.44}},
}

// bytes is the least memory that a run of a rows x cols problem needs.
func (r paperRow) bytes(rows, cols int) uint64 {
	entries := uint64(rows) * uint64(cols)
	if r.problem == "lasso" {
		// X, its active columns (about a fifth), their Gram matrix and its inverse.
		return 8 * entries * 3 / 2
	}
	// A few dozen matrices: probes, sketch and basis.
	return 8 * entries * 250
}

// tableLine is a row of a table in tables.jsonl: the keys of surepipe run, and further ones.
type tableLine struct {
	Table int `json:"table"`
	study.Result
	Rows int `json:"rows"`
	Cols int `json:"cols"`
	// Analytic is SURE with the closed form of LASSO's divergence, the number of nonzeros of b.
	Analytic *float64 `json:"analytic_sure,omitempty"`
	// Risk is the mean loss over RiskSamples further y, RiskStdErr its standard error.
	Risk        *float64    `json:"risk,omitempty"`
	RiskStdErr  *float64    `json:"risk_stderr,omitempty"`
	RiskSamples int         `json:"risk_samples,omitempty"`
	Paper       paperValues `json:"paper"`
	// Data is the file in the folder, or the command that generates it.
	Data string `json:"data,omitempty"`
}

const paperTablesHelp = `draws the data sets of Tables I to III of
Nobel, Candes and Boyd, estimates their risk, and prints each row as soon as it is done:
SURE per coordinate with its standard error, the true loss at the same y, the paper's
SURE and Monte Carlo risk, our seconds for solve and divergence, and the paper's on a
V100. With --samples N a further column is the Monte Carlo risk, the mean loss over N
further y.

The paper's draws are not published: compare SURE with the loss beside it. Rows that need
more memory than --largest are left out. With --scale the sizes are smaller, but the
paper's values are those of its own sizes.

--out DIR keeps everything, row by row: table1-lasso.csv, .txt and so on, tables.jsonl
with the keys of surepipe run, and the data in data/ or, for large data, the command that
generates them bit for bit.`

func tabledProblems() []problems.Named {
	tabled := slices.DeleteFunc(generators(), func(n problems.Named) bool { return n.Generator.Table == 0 })
	slices.SortFunc(tabled, func(a, b problems.Named) int { return a.Generator.Table - b.Generator.Table })
	return tabled
}

func tableOf(problem string) int {
	named, _ := problems.Lookup(problem)
	return named.Generator.Table
}

func newPaperTables(use string, samples int) *cobra.Command {
	var f paperFlags
	var problem, largest string
	tabled := namesOf(tabledProblems())
	cmd := &cobra.Command{
		Use:   use,
		Short: "Print the paper's tables with our values and times beside its own",
		Long:  "surepipe paper tables " + paperTablesHelp,
		Example: `  surepipe paper tables --out tables
  surepipe paper tables --problem matrix-completion --scale 0.2`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if problem != "all" && !slices.Contains(tabled, problem) {
				return study.Errorf("--problem is %q, expected all or one of %s", problem, strings.Join(tabled, ", "))
			}
			if samples < 0 || samples == 1 {
				return study.Errorf("--samples is %d, expected at least 2, or 0 for none", samples)
			}
			limit, err := parseSize("largest", largest)
			if err != nil {
				return err
			}
			if err := f.check(); err != nil {
				return err
			}
			t := tables{cmd: cmd, flags: &f, samples: samples}
			return t.run(problem, limit)
		},
	}
	f.register(cmd)
	problem, largest = "all", humanize.IBytes(uint64(stored.Memory())*3/4)
	cli.Bind(cmd,
		cli.Flag{Name: "problem", To: &problem, Usage: "all, " + strings.Join(tabled, ", "),
			Values: append([]string{"all"}, tabled...)},
		cli.Flag{Name: "largest", To: &largest, Usage: "leave out rows that need more memory than this"},
		cli.Flag{Name: "samples", To: &samples, Usage: "further samples for the Monte Carlo risk; 0 leaves it out"})
	return cmd
}

// tables computes, prints and keeps rows.
type tables struct {
	cmd     *cobra.Command
	flags   *paperFlags
	samples int
	lines   []tableLine
}

func (t *tables) run(problem string, limit uint64) error {
	if t.flags.out != "" {
		if err := t.flags.makeFolder(); err != nil {
			return err
		}
	}
	out := t.cmd.OutOrStdout()
	if _, err := fmt.Fprintln(out, t.header()); err != nil {
		return err
	}
	notConverged := false
	for _, row := range paperRows {
		rows, cols := t.flags.scaled(row.rows, row.cols)
		bytes := row.bytes(rows, cols)
		switch {
		case problem != "all" && row.problem != problem:
			continue
		case bytes > limit:
			fmt.Fprintf(t.cmd.ErrOrStderr(), "surepipe: %s %d x %d is left out: it takes about %s\n", row.problem,
				rows, cols, humanize.Bytes(bytes))
			continue
		}
		line, err := t.row(row, rows, cols, bytes)
		if err != nil {
			return err
		}
		t.lines = append(t.lines, line)
		notConverged = notConverged || !line.converged()
		if _, err := fmt.Fprintln(out, line.text(t.samples > 0)); err != nil {
			return err
		}
		if err := t.keep(line.Table); err != nil {
			return err
		}
	}
	if notConverged {
		return errNotConverged
	}
	return nil
}

func (t *tables) row(r paperRow, rows, cols int, bytes uint64) (line tableLine, err error) {
	ctx := t.cmd.Context()
	data, err := generate(r.problem, rows, cols, t.flags.seed)
	if err != nil {
		return line, err
	}
	line = tableLine{Table: tableOf(r.problem), Rows: rows, Cols: cols, Paper: r.paper}
	if t.flags.out != "" {
		if line.Data, err = t.flags.writeData(r.problem, rows, cols, data); err != nil {
			return line, err
		}
	}
	progress := bar.New(t.cmd)
	defer progress.Close()
	progress.Label(fmt.Sprintf("%s %d x %d: ", r.problem, rows, cols), "samples")
	o := t.flags.options(r.problem, data)
	o.Parallel = 1
	e, err := t.flags.open(data, o, progress)
	if err != nil {
		return line, err
	}
	defer e.Close()
	fit, err := e.Fit(ctx)
	if err != nil {
		return line, err
	}
	line.Result = fit.Result
	if r.problem == "lasso" {
		risk, nonzeros := fit.Risk(), 0
		for _, b := range risk.DenseB() {
			if b != 0 {
				nonzeros++
			}
		}
		terms := risk.Terms()
		terms.Divergence = float64(nonzeros)
		analytic := terms.SURE()
		line.Analytic = &analytic
	}
	if t.samples > 0 {
		var s *surepipe.Spread
		if s, err = t.losses(data, o, bytes, progress); err == nil {
			line.Risk, line.RiskStdErr, line.RiskSamples = s.MeanLoss, s.MeanLossStdErr, s.Samples
		}
	}
	return line, err
}

// losses sums up ||mu_hat - mu||^2 at further samples. Their divergence is not used, and is estimated with the fewest
// probes. For a large row one sample is in flight at a time.
func (t *tables) losses(data problems.Data, o surepipe.Options, bytes uint64, line *bar.Line) (*surepipe.Spread,
	error) {
	o.Trace, o.Queries, o.Parallel = hutch.Hutchinson, 2, t.flags.parallel
	if 2*bytes > uint64(stored.Memory()) {
		o.Parallel = 1
	}
	e, err := t.flags.open(data, o, line)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	done := 0
	return e.MonteCarlo(t.cmd.Context(), surepipe.Draws{Count: t.samples, Line: func(study.SampleLine) error {
		done++
		line.Set(done, t.samples, done)
		return nil
	}})
}

func (l *tableLine) converged() bool { return l.Solver.Converged && l.DerivativeConverged }

func (t *tables) header() string {
	text := fmt.Sprintf("%-18s %7s %8s  %-15s %7s ", "problem", "d", "p", "SURE/d", "loss/d")
	if t.samples > 0 {
		text += fmt.Sprintf("%15s ", "risk/d")
	}
	return text + fmt.Sprintf("%8s %9s %8s %13s %10s", "paper's", "its risk", "solve s", "divergence s", "paper's s")
}

func (l *tableLine) text(risk bool) string {
	d := float64(l.D)
	text := fmt.Sprintf("%-18s %7d %8d  %.3f ± %.3f   %7.3f ", l.Problem, l.D, l.P, *l.SURE/d, *l.SUREStdErr/d,
		*l.Loss/d)
	if risk {
		text += fmt.Sprintf("%15s ", fmt.Sprintf("%.3f ± %.3f", *l.Risk/d, *l.RiskStdErr/d))
	}
	text += fmt.Sprintf("%8.2f %9.2f %8.3g %13.3g %10.3g", l.Paper.SURE, l.Paper.Risk, l.Seconds.Solve,
		l.Seconds.Divergence, l.Paper.Seconds)
	if !l.converged() {
		text += "  NOT CONVERGED"
	}
	return text
}

var tableColumns = []string{
	"problem", "rows", "cols", "d", "p", "sure_per_d", "sure_stderr_per_d", "analytic_sure_per_d", "loss_per_d",
	"risk_per_d", "risk_stderr_per_d", "converged",
	"solve_seconds", "divergence_seconds", "total_seconds", "device",
	"paper_sure_per_d", "paper_seconds", "paper_cvxpylayers_sure_per_d", "paper_cvxpylayers_seconds",
	"paper_analytic_sure_per_d", "paper_risk_per_d",
}

func (l *tableLine) cells() []string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	per := func(v *float64) string {
		if v == nil {
			return ""
		}
		return number(*v / float64(l.D))
	}
	known := func(v float64) string {
		if v == 0 {
			return ""
		}
		return number(v)
	}
	return []string{
		l.Problem, strconv.Itoa(l.Rows), strconv.Itoa(l.Cols), strconv.Itoa(l.D), strconv.Itoa(l.P),
		per(l.SURE), per(l.SUREStdErr), per(l.Analytic), per(l.Loss), per(l.Risk), per(l.RiskStdErr),
		strconv.FormatBool(l.converged()),
		number(l.Seconds.Solve), number(l.Seconds.Divergence), number(l.Seconds.Total), l.Device,
		number(l.Paper.SURE), number(l.Paper.Seconds), known(l.Paper.LayersSURE), known(l.Paper.LayersSeconds),
		known(l.Paper.Analytic), number(l.Paper.Risk),
	}
}

// keep writes the rows so far of a table, and of all tables, to the folder.
func (t *tables) keep(table int) error {
	if t.flags.out == "" {
		return nil
	}
	var all, cells bytes.Buffer
	text := t.header() + "\n"
	w := csv.NewWriter(&cells)
	w.Write(tableColumns) // to memory: it does not fail
	for i := range t.lines {
		l := &t.lines[i]
		line, err := json.Marshal(l)
		if err != nil {
			return err
		}
		all.Write(append(line, '\n'))
		if l.Table == table {
			text += l.text(t.samples > 0) + "\n"
			w.Write(l.cells())
		}
	}
	w.Flush()
	if t.flags.scale < 1 {
		text += fmt.Sprintf("Sizes are %g of the paper's, whose values are those of its own sizes.\n", t.flags.scale)
	}
	name := filepath.Join(t.flags.out, fmt.Sprintf("table%d-%s", table, tabledProblems()[table-1].Name))
	for path, text := range map[string][]byte{filepath.Join(t.flags.out, "tables.jsonl"): all.Bytes(),
		name + ".csv": cells.Bytes(), name + ".txt": []byte(text)} {
		if err := dataio.WriteFile(path, write(text)); err != nil {
			return err
		}
	}
	return nil
}

func write(text []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}
}

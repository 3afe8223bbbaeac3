package main

import (
	"bytes"
	"cmp"
	"encoding/csv"
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
	"surepipe/internal/lists"
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

// paperRow is a row of a table: the size of the problem, and the paper's values.
type paperRow struct {
	rows, cols int
	paper      paperValues
}

// tabled is a table: its problem, whose data it draws, and its rows.
type tabled struct {
	problem string
	draw    func(rows, cols int, seed uint64) (problems.Data, error)
	rows    []paperRow
}

// paperTables are Tables I to III, with the rows in the paper's order. LASSO has rows observations of cols variables.
var paperTables = []tabled{
	{"lasso", problems.GenerateLasso, []paperRow{
		{250, 500, paperValues{0.51, 2.54, 0.51, 252, 0.52, 0.48}},
		{500, 1000, paperValues{0.37, 2.89, 0.43, 1929, 0.40, 0.50}},
		{2500, 5000, paperValues{0.58, 3.10, 0, 0, 0.57, 0.51}},
		{5000, 10000, paperValues{0.47, 9.19, 0, 0, 0.46, 0.53}},
		{25000, 50000, paperValues{0.58, 287, 0, 0, 0.58, 0.54}},
	}},
	{"matrix-completion", problems.GenerateMatrixCompletion, []paperRow{
		{20, 10, paperValues{1.16, 5.20, 1.15, 1.51, 0, 1.33}},
		{100, 50, paperValues{0.88, 49.9, 0.86, 2246, 0, 0.96}},
		{200, 100, paperValues{0.84, 45.1, 0.84, 15866, 0, 0.90}},
		{1000, 500, paperValues{1.69, 41.2, 0, 0, 0, 1.70}},
		{2000, 1000, paperValues{0.74, 114, 0, 0, 0, 0.74}},
	}},
	{"robust-pca", problems.GenerateRobustPCA, []paperRow{
		{10, 10, paperValues{5.13, 16.0, 5.14, 1.15, 0, 5.01}},
		{50, 50, paperValues{0.53, 19.9, 0.53, 115, 0, 0.59}},
		{100, 100, paperValues{0.31, 21.5, 0.31, 1116, 0, 0.34}},
		{500, 500, paperValues{0.27, 22.1, 0, 0, 0, 0.27}},
		{1000, 1000, paperValues{0.44, 31.4, 0, 0, 0, 0.44}},
	}},
}

func paperTable(problem string) tabled {
	return paperTables[slices.IndexFunc(paperTables, func(t tabled) bool { return t.problem == problem })]
}

// bytes is the least memory that a run of a rows x cols problem needs: LASSO X, its active columns (about a fifth),
// their Gram matrix and its inverse, the others a few dozen matrices of probes, sketch and basis.
func (t tabled) bytes(rows, cols int) uint64 {
	entries := 8 * uint64(rows) * uint64(cols)
	if t.problem == paperTables[0].problem {
		return entries * 3 / 2
	}
	return entries * 250
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

func newPaperTables(use string, samples int) *cobra.Command {
	var f paperFlags
	var problem, largest string
	known := lists.Map(paperTables, func(t tabled) string { return t.problem })
	cmd := &cobra.Command{
		Use:   use,
		Short: "Print the paper's tables with our values and times beside its own",
		Long:  "surepipe paper tables " + helpText("paper"),
		Example: `  surepipe paper tables --out tables
  surepipe paper tables --problem matrix-completion --scale 0.2`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if problem != "all" && !slices.Contains(known, problem) {
				return study.Errorf("--problem is %q, expected all or one of %s", problem, strings.Join(known, ", "))
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
			return (&tables{paperFlags: &f, samples: samples}).run(problem, limit)
		},
	}
	f.register(cmd)
	problem, largest = "all", humanize.IBytes(uint64(stored.Memory())*3/4)
	cli.Bind(cmd,
		cli.Flag{Name: "problem", To: &problem, Usage: "all, " + strings.Join(known, ", "),
			Values: append([]string{"all"}, known...)},
		cli.Flag{Name: "largest", To: &largest, Usage: "leave out rows that need more memory than this"},
		cli.Flag{Name: "samples", To: &samples, Usage: "further samples for the Monte Carlo risk; 0 leaves it out"})
	return cmd
}

// tables computes, prints and keeps rows.
type tables struct {
	*paperFlags
	samples int
	lines   []tableLine
}

func (t *tables) run(problem string, limit uint64) error {
	if t.out != "" {
		if err := t.makeFolder(); err != nil {
			return err
		}
	}
	out := t.cmd.OutOrStdout()
	if _, err := fmt.Fprintln(out, t.header()); err != nil {
		return err
	}
	notConverged := false
	for k, table := range paperTables {
		for _, r := range table.rows {
			rows, cols := t.scaled(r.rows, r.cols)
			bytes := table.bytes(rows, cols)
			switch {
			case problem != "all" && table.problem != problem:
				continue
			case bytes > limit:
				fmt.Fprintf(t.cmd.ErrOrStderr(), "surepipe: %s %d x %d is left out: it takes about %s\n",
					table.problem, rows, cols, humanize.Bytes(bytes))
				continue
			}
			line := tableLine{Table: k + 1, Rows: rows, Cols: cols, Paper: r.paper}
			if err := t.row(&line, table.problem, r, bytes); err != nil {
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
	}
	if notConverged {
		return errNotConverged
	}
	return nil
}

// row fills a line.
func (t *tables) row(line *tableLine, problem string, r paperRow, bytes uint64) error {
	data, file, err := t.draw(problem, r.rows, r.cols)
	if err != nil {
		return err
	}
	line.Data = file
	progress := bar.New(t.cmd)
	defer progress.Close()
	progress.Label(fmt.Sprintf("%s %d x %d: ", problem, line.Rows, line.Cols), "samples")
	o := t.options(data)
	o.Parallel = 1
	e, err := t.open(data.Data, o, progress)
	if err != nil {
		return err
	}
	defer e.Close()
	fit, err := e.Fit(t.cmd.Context())
	if err != nil {
		return err
	}
	line.Result = fit.Result
	if problem == paperTables[0].problem {
		risk := fit.Risk()
		terms := risk.Terms()
		terms.Divergence = 0
		for _, b := range risk.DenseB() {
			if b != 0 {
				terms.Divergence++
			}
		}
		line.Analytic = new(terms.SURE())
	}
	if t.samples > 0 {
		s, err := t.losses(data.Data, o, bytes, progress)
		if err != nil {
			return err
		}
		line.Risk, line.RiskStdErr, line.RiskSamples = s.MeanLoss, s.MeanLossStdErr, s.Samples
	}
	return nil
}

// losses sums up ||mu_hat - mu||^2 at further samples. Their divergence is not used, and is estimated with the fewest
// probes. For a large row one sample is in flight at a time.
func (t *tables) losses(data problems.Data, o surepipe.Options, bytes uint64, line *bar.Line) (*surepipe.Spread,
	error) {
	o.Trace, o.Queries, o.Parallel = hutch.Hutchinson, 2, t.parallel
	if 2*bytes > uint64(stored.Memory()) {
		o.Parallel = 1
	}
	e, err := t.open(data, o, line)
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

type tableColumn struct {
	name string
	of   func(l *tableLine) string
}

// tableColumns are those of the .csv files. A value of 0 of the paper's is one that it does not give.
var tableColumns = []tableColumn{
	{"problem", func(l *tableLine) string { return l.Problem }},
	{"rows", func(l *tableLine) string { return strconv.Itoa(l.Rows) }},
	{"cols", func(l *tableLine) string { return strconv.Itoa(l.Cols) }},
	{"d", func(l *tableLine) string { return strconv.Itoa(l.D) }},
	{"p", func(l *tableLine) string { return strconv.Itoa(l.P) }},
	{"sure_per_d", func(l *tableLine) string { return l.each(l.SURE) }},
	{"sure_stderr_per_d", func(l *tableLine) string { return l.each(l.SUREStdErr) }},
	{"analytic_sure_per_d", func(l *tableLine) string { return l.each(l.Analytic) }},
	{"loss_per_d", func(l *tableLine) string { return l.each(l.Loss) }},
	{"risk_per_d", func(l *tableLine) string { return l.each(l.Risk) }},
	{"risk_stderr_per_d", func(l *tableLine) string { return l.each(l.RiskStdErr) }},
	{"converged", func(l *tableLine) string { return strconv.FormatBool(l.converged()) }},
	{"solve_seconds", func(l *tableLine) string { return format(l.Seconds.Solve) }},
	{"divergence_seconds", func(l *tableLine) string { return format(l.Seconds.Divergence) }},
	{"total_seconds", func(l *tableLine) string { return format(l.Seconds.Total) }},
	{"device", func(l *tableLine) string { return l.Device }},
	{"paper_sure_per_d", func(l *tableLine) string { return known(l.Paper.SURE) }},
	{"paper_seconds", func(l *tableLine) string { return known(l.Paper.Seconds) }},
	{"paper_cvxpylayers_sure_per_d", func(l *tableLine) string { return known(l.Paper.LayersSURE) }},
	{"paper_cvxpylayers_seconds", func(l *tableLine) string { return known(l.Paper.LayersSeconds) }},
	{"paper_analytic_sure_per_d", func(l *tableLine) string { return known(l.Paper.Analytic) }},
	{"paper_risk_per_d", func(l *tableLine) string { return known(l.Paper.Risk) }},
}

func (l *tableLine) each(v *float64) string {
	if v == nil {
		return ""
	}
	return format(*v / float64(l.D))
}

func known(v float64) string {
	if v == 0 {
		return ""
	}
	return format(v)
}

// keep writes the rows so far of a table, and of all tables, to the folder.
func (t *tables) keep(table int) error {
	if t.out == "" {
		return nil
	}
	cells := [][]string{lists.Map(tableColumns, func(c tableColumn) string { return c.name })}
	var all bytes.Buffer
	text := t.header() + "\n"
	for i := range t.lines {
		l := &t.lines[i]
		if err := study.WriteLine(&all, l); err != nil {
			return err
		}
		if l.Table != table {
			continue
		}
		text += l.text(t.samples > 0) + "\n"
		cells = append(cells, lists.Map(tableColumns, func(c tableColumn) string { return c.of(l) }))
	}
	if t.scale < 1 {
		text += fmt.Sprintf("Sizes are %g of the paper's, whose values are those of its own sizes.\n", t.scale)
	}
	name := filepath.Join(t.out, fmt.Sprintf("table%d-%s", table, paperTables[table-1].problem))
	return cmp.Or(writeText(filepath.Join(t.out, "tables.jsonl"), all.String()), writeText(name+".txt", text),
		dataio.WriteFile(name+".csv", func(w io.Writer) error { return csv.NewWriter(w).WriteAll(cells) }))
}

func writeText(path, text string) error {
	return dataio.WriteFile(path, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

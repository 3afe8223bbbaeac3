package main

import (
	"cmp"
	"embed"
	"fmt"
	"strings"
	"text/template"

	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/internal/dataio"
	"surepipe/internal/lists"
	"surepipe/internal/noise"
	"surepipe/loss"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/risk"
	"surepipe/solve"
)

// listed is a row of a list: a name in a column of that width, and what is to be said of it, which may have lines.
func listed(width int, name, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		fmt.Fprintf(&b, "  %-*s %s\n", width, name, strings.TrimSuffix(line, "\n"))
		name = ""
	}
	return b.String()
}

// list is a list with such a row for each of some things.
func list[T any](of []T, row func(T) string) string { return strings.Join(lists.Map(of, row), "") }

func formatsHelp() string {
	return list(dataio.Formats(), func(f dataio.Format) string {
		return listed(14, strings.Join(f.Extensions, ", "), f.Help)
	})
}

//go:embed text
var texts embed.FS

// values are what texts of the help have between << and >>: other texts, and what tables say.
var values = template.FuncMap{"layouts": layoutHelp, "formats": formatsHelp, "methods": methodsOfSigma2,
	"marks": func() string { return strings.Join(dataio.MissingMarks, " ") }, "divergences": methodsHelp,
	"generators": generateHelp, "solvers": solversHelp}

func init() { values["text"] = helpText }

// helpText is the text of the help of that name.
func helpText(name string) string {
	var b strings.Builder
	page := template.New(name+".txt").Delims("<<", ">>").Funcs(values)
	page = template.Must(page.ParseFS(texts, "text/"+page.Name()))
	if err := page.Execute(&b, nil); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func dataHelp() string {
	return strings.Join([]string{helpText("data"), helpText("tables"), helpText("storage"), helpText("exec"),
		criteriaHelp(), lossesHelp()}, "\n\n")
}

func methodsOfSigma2() string {
	return list(noise.Methods(), func(m noise.Method) string {
		return cli.Hanging(fmt.Sprintf("  %-22s", m.Name), strings.Fields(m.Help), 96)
	})
}

func solversHelp() string {
	return list(solve.Methods(), func(m solve.Entry) string {
		return cli.Hanging(fmt.Sprintf("  %-15s", m.Name), strings.Fields(m.About), 96)
	})
}

// layoutHelp lists the arrays of the named problems, grouping those with the same layout.
func layoutHelp() string {
	var layouts []problems.Layout
	names := map[problems.Layout][]string{}
	for _, n := range problems.Registered() {
		if names[n.Layout] == nil {
			layouts = append(layouts, n.Layout)
		}
		names[n.Layout] = append(names[n.Layout], n.Name)
	}
	return list(layouts, func(l problems.Layout) string { return listed(32, strings.Join(names[l], ", "), l.Arrays) })
}

// criteriaHelp explains the numbers by which weights may be chosen.
func criteriaHelp() string {
	var b strings.Builder
	b.WriteString("Beside SURE, these numbers need no sigma2 (df is the divergence, RSS the residual):\n\n")
	for r := range risk.Rules() {
		if !r.Sigma2 {
			b.WriteString(listed(10, string(r.Name), r.Help))
		}
	}
	b.WriteString(listed(10, "sigma2_df",
		"RSS / (d - df): an estimate of sigma2, too large by the squared bias of the fit"))
	b.WriteString("\nWithout sigma2 everything else is computed, and SURE and its error are left out.")
	return b.String()
}

func lossesHelp() string {
	return "The losses are\n\n" + list(loss.Kinds(), func(k loss.Kind) string {
		return listed(10, k.Name, cmp.Or(k.Help, "1/2 ||A b - y||^2"))
	}) + "\n" + helpText("loss")
}

func methodsHelp() string {
	return list(pipeline.BlackBoxRows(), func(row pipeline.BlackBoxRow) string {
		return listed(18, string(row.Name), row.Help)
	})
}

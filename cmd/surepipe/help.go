package main

import (
	"cmp"
	"embed"
	"fmt"
	"strings"
	"text/template"

	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/internal/dataio"
	"surepipe/internal/noise"
	"surepipe/loss"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/risk"
)

func formatsHelp() string {
	var b strings.Builder
	for _, f := range dataio.Formats() {
		names := strings.Join(f.Extensions, ", ")
		for line := range strings.Lines(f.Help) {
			fmt.Fprintf(&b, "  %-14s %s\n", names, strings.TrimSuffix(line, "\n"))
			names = ""
		}
	}
	return b.String()
}

//go:embed text
var texts embed.FS

// values are what texts of the help have between << and >>: other texts, and what tables say.
var values = template.FuncMap{"layouts": layoutHelp, "formats": formatsHelp, "methods": methodsOfSigma2,
	"marks": func() string { return strings.Join(dataio.MissingMarks, " ") }, "divergences": methodsHelp,
	"generators": generateHelp}

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
	var b strings.Builder
	for _, m := range noise.Methods() {
		b.WriteString(cli.Hanging(fmt.Sprintf("  %-22s", m.Name), strings.Fields(m.Help), 96))
	}
	return b.String()
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
	var s strings.Builder
	for _, l := range layouts {
		who := strings.Join(names[l], ", ")
		for line := range strings.SplitSeq(l.Arrays, "\n") {
			fmt.Fprintf(&s, "  %-32s %s\n", who, line)
			who = ""
		}
	}
	return s.String()
}

// criteriaHelp explains the numbers by which weights may be chosen.
func criteriaHelp() string {
	var b strings.Builder
	b.WriteString("Beside SURE, these numbers need no sigma2 (df is the divergence, RSS the residual):\n\n")
	for r := range risk.Rules() {
		if !r.Sigma2 {
			writeTerm(&b, string(r.Name), r.Help)
		}
	}
	writeTerm(&b, "sigma2_df", "RSS / (d - df): an estimate of sigma2, too large by the squared bias of the fit")
	b.WriteString("\nWithout sigma2 everything else is computed, and SURE and its error are left out.")
	return b.String()
}

func writeTerm(b *strings.Builder, name, text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintf(b, "  %-10s %s\n", name, strings.TrimSuffix(line, "\n"))
		name = ""
	}
}

func lossesHelp() string {
	var b strings.Builder
	b.WriteString("The losses are\n\n")
	for _, k := range loss.Kinds() {
		writeTerm(&b, k.Name, cmp.Or(k.Help, "1/2 ||A b - y||^2"))
	}
	return b.String() + "\n" + helpText("loss")
}

func methodsHelp() string {
	var b strings.Builder
	for _, row := range pipeline.BlackBoxRows() {
		fmt.Fprintf(&b, "  %-18s %s\n", row.Name, strings.ReplaceAll(row.Help, "\n", "\n"+strings.Repeat(" ", 21)))
	}
	return b.String()
}

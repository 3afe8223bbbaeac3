package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"surepipe/risk"
	"surepipe/study"
)

// criteriaHelp explains the numbers by which weights may be chosen.
func criteriaHelp() string {
	var b strings.Builder
	b.WriteString("Beside SURE, these numbers need no sigma2 (df is the divergence, RSS the residual):\n\n")
	for _, r := range risk.Rules() {
		if !r.Sigma2 {
			writeTerm(&b, string(r.Name), r.Help)
		}
	}
	writeTerm(&b, "sigma2_df", "RSS / (d - df): an estimate of sigma2, too large by the squared bias of the fit")
	b.WriteString("\nWithout sigma2 everything else is computed, and SURE and its error are left out.")
	return b.String()
}

// writeTerm writes a name and its explanation in two columns.
func writeTerm(b *strings.Builder, name, text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintf(b, "  %-10s %s\n", name, strings.TrimSuffix(line, "\n"))
		name = ""
	}
}

// label is the name of a criterion in tables and figures.
func label(c risk.Criterion) string { return c.Rule().Label }

// unknown stands for a value that is not defined, or cannot be known.
const unknown = "not known"

// plusMinus is a value with its standard error where it has one.
func plusMinus(value, stdErr float64) string {
	switch {
	case math.IsNaN(value):
		return unknown
	case math.IsNaN(stdErr):
		return fmt.Sprintf("%.6g", value)
	}
	return fmt.Sprintf("%.6g ± %.2g", value, stdErr)
}

// writeCriteria prints them as rows of a table.
func writeCriteria(r *study.Result, w io.Writer) {
	aimed := false
	for _, rule := range risk.Rules() {
		value, stdErr := r.Value(rule.Name)
		text := r.Texts[rule.Name]
		// The coupled bootstrap has no GCV, and other losses have few criteria.
		optional := r.LossName != "" || r.Alpha > 0 || rule.Sigma2 || rule.Diagonal
		if !math.IsNaN(value) || !optional || rule.Diagonal && text != "" {
			fmt.Fprintf(w, "%s\t%s\t%s\n", rule.Label, plusMinus(value, stdErr), text)
			if rule.Predicts && r.LossName == "" && r.ALOEstimates != "" && !aimed {
				aimed = true
				fmt.Fprintf(w, "\t\tGCV and leave-one-out aim at %s\n", r.ALOEstimates)
			}
		}
		if rule.Sigma2 && r.SUREEstimates != "" {
			fmt.Fprintf(w, "\t\t%s is about %s\n", rule.Label, r.SUREEstimates)
		}
	}
}

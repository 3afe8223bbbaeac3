package main

import (
	"strings"
	"testing"

	"surepipe/risk/warning"
)

// The guide has a line for every warning that the program knows, with the text of the table.
func TestTheTableOfWarningsIsInTheGuide(t *testing.T) {
	status, table, stderr := command(t, "warnings", "--markdown")
	if status != exitDone || strings.Count(table, "\n") != len(warning.Kinds())+2 {
		t.Fatalf("status %d, %q, %d lines for %d warnings", status, stderr, strings.Count(table, "\n"),
			len(warning.Kinds()))
	}
	begin, end := "<!-- surepipe warnings --markdown -->\n", "<!-- end -->"
	_, guide, _ := strings.Cut(documents(t)["docs/trust.md"], begin)
	if guide, _, _ = strings.Cut(guide, end); guide != table {
		t.Errorf("docs/trust.md has another table of warnings than surepipe warnings --markdown prints:\n%s", table)
	}
}

// A code explains itself, and a misspelled one says which was meant.
func TestWarningsAreExplained(t *testing.T) {
	for _, k := range warning.Kinds() {
		status, text, _ := command(t, "warnings", k.Code)
		doubt := strings.Contains(text, "exit status 3")
		if status != exitDone || !strings.Contains(text, "\n"+k.Code+"\n  ") || doubt != (k.Severity == warning.Doubt) &&
			k != warning.Ambiguous {
			t.Errorf("surepipe warnings %s: status %d, %q", k.Code, status, text)
		}
	}
	status, _, stderr := command(t, "warnings", "gcv-leverage")
	if status != exitUsage || !strings.Contains(stderr, `did you mean "gcv-leverages"?`) {
		t.Errorf("status %d, %q", status, stderr)
	}
}

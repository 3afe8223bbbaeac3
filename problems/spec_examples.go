package problems

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed specs/*.yaml
var specFiles embed.FS

// moreSpecs are the examples that are not named problems.
var moreSpecs = []string{"wavelet-denoise", "deblur", "inpaint", "slope", "group-lasso", "lasso-csv"}

// SpecNames lists the examples of [SpecExample]: all named problems, and more.
func SpecNames() []string { return append(Names(), moreSpecs...) }

// SpecExample is a specification to start from.
func SpecExample(name string) (string, error) {
	if !slices.Contains(SpecNames(), name) {
		return "", fmt.Errorf("there is no example %q%s, expected one of %s", name, meant(name, SpecNames()), strings.Join(SpecNames(), ", "))
	}
	text, err := specFiles.ReadFile("specs/" + name + ".yaml")
	return string(text), err
}

// SpecSummary is the first sentence of an example's comment.
func SpecSummary(name string) string {
	text, err := SpecExample(name)
	if err != nil {
		return ""
	}
	var comment strings.Builder
	for line := range strings.Lines(text) {
		line, ok := strings.CutPrefix(line, "#")
		if !ok {
			break
		}
		comment.WriteString(" " + strings.TrimSpace(line))
	}
	summary, _, _ := strings.Cut(strings.TrimSpace(comment.String()), ". ")
	return strings.TrimSuffix(summary, ".")
}

// SpecHelp describes the operators and the regularizers of a specification, for
// people.
func SpecHelp() string {
	var s strings.Builder
	list := func(name, help string) {
		if !strings.HasPrefix(help, name) {
			help = fmt.Sprintf("%-35s %s", name, help)
		}
		for i, line := range strings.Split(help, "\n") {
			// Lines that go on are set below the explanation.
			if i > 0 && !strings.HasPrefix(line, name+":") {
				line = strings.Repeat(" ", 36) + line
			}
			s.WriteString("  " + line + "\n")
		}
	}
	s.WriteString("Operators:\n\n")
	for _, k := range operatorKinds {
		list(k.name, k.help)
	}
	s.WriteString("\nRegularizers; W is a number, lambda, lambda2, gamma, or a multiple as 0.5*lambda:\n\n")
	for _, k := range regularizerKinds {
		list(k.name, k.help)
	}
	return s.String()
}

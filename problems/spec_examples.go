package problems

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"surepipe/internal/dataio/ndarray"
)

//go:embed specs/*.yaml
var specFiles embed.FS

// SpecNames lists the examples of [SpecExample]: the named problems, and then the other files of
// specs in alphabetical order.
func SpecNames() []string {
	names := Names()
	files, err := specFiles.ReadDir("specs")
	if err != nil {
		panic(fmt.Sprintf("problems: the embedded specifications: %v", err))
	}
	for _, f := range files {
		if name := strings.TrimSuffix(f.Name(), ".yaml"); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// SpecExample returns the text of an example, to start from.
func SpecExample(name string) (string, error) {
	if !slices.Contains(SpecNames(), name) {
		return "", fmt.Errorf("there is no example %q%s, expected one of %s", name, ndarray.Meant(name, SpecNames()),
			strings.Join(SpecNames(), ", "))
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

// SpecHelp is a help text on the operators, the regularizers and the weights of a specification.
func SpecHelp() string {
	return "Operators:\n\n" + help(operatorKinds) +
		"\nRegularizers; W is a number, lambda, lambda2, gamma, or a multiple such as 0.5*lambda:\n\n" +
		help(regularizerKinds)
}

package spec

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/lists"
)

//go:embed specs/*.yaml
var specFiles embed.FS

// Names lists the examples of [Example] in alphabetical order.
func Names() []string {
	files, err := specFiles.ReadDir("specs")
	if err != nil {
		panic(fmt.Sprintf("spec: the embedded specifications: %v", err))
	}
	return lists.Map(files, func(f fs.DirEntry) string { return strings.TrimSuffix(f.Name(), ".yaml") })
}

// Example returns the text of an example, to start from.
func Example(name string) (string, error) {
	if !slices.Contains(Names(), name) {
		return "", fmt.Errorf("there is no example %q%s, expected one of %s", name, ndarray.Meant(name, Names()),
			strings.Join(Names(), ", "))
	}
	text, err := specFiles.ReadFile("specs/" + name + ".yaml")
	return string(text), err
}

// Summary is the first sentence of an example's comment.
func Summary(name string) string {
	text, err := Example(name)
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

// Embedded parses an example, whose errors have no place.
func Embedded(name string) (*Spec, error) {
	text, err := specFiles.ReadFile("specs/" + name + ".yaml")
	if err != nil {
		return nil, err
	}
	s, err := Parse(text, name+".yaml")
	if err == nil {
		s.embedded = true
	}
	return s, err
}

// Help is a help text on the operators, the regularizers, the weights and the noise of a specification.
func Help() string {
	var s strings.Builder
	s.WriteString("Operators:\n\n")
	for _, k := range operatorKinds.rows {
		s.WriteString(help(k.forms))
	}
	s.WriteString("\nRegularizers; W is a number, lambda, lambda2, gamma, or a multiple such as 0.5*lambda:\n\n")
	for _, k := range regularizers.rows {
		s.WriteString(help(k.Forms))
	}
	s.WriteString("\nNoise that is not white, with the squared loss:\n\n")
	for _, k := range noises.rows {
		s.WriteString(help(k.forms))
	}
	return s.String()
}

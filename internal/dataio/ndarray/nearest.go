package ndarray

import (
	"fmt"
	"slices"
	"strings"

	"surepipe/internal/lists"
)

// Nearest is the candidate of which a name may be a misspelling: the first one of least edit
// distance (Levenshtein's, ignoring case), if that is at most half the name's length; "" where
// there is none. A candidate that continues the name after an underscore, such as y_train for y, is
// as near as the name itself, and one of three letters and more that begins it, such as tol for tolerance, nearly so.
func Nearest(name string, candidates []string) string {
	if name == "" {
		return ""
	}
	nearest, least := "", len(name)/2+1
	wanted := strings.ToLower(name)
	for _, candidate := range candidates {
		lower, d := strings.ToLower(candidate), 0
		switch {
		case strings.HasPrefix(lower, wanted+"_"):
		case len(lower) >= 3 && strings.HasPrefix(wanted, lower):
			d = min(1, editDistance(lower, wanted))
		default:
			d = editDistance(lower, wanted)
		}
		if d < least {
			nearest, least = candidate, d
		}
	}
	return nearest
}

// Meant is a hint at the candidate that a name may be a misspelling of, to follow the name in a
// message: ` (did you mean "y"?)`; "" where there is none.
func Meant(name string, candidates []string) string {
	nearest := Nearest(name, candidates)
	if nearest == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", nearest)
}

// editDistance is Levenshtein's distance: insertions, deletions and substitutions.
func editDistance(a, b string) int {
	row := lists.Upto(len(b) + 1)
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

// MissingColumn is the error for a column that is not among the given ones. It lists these, and
// suggests one that may be meant.
func MissingColumn(name string, found []string) error {
	return fmt.Errorf("column %q is missing; %s", name, Suggest("the table", name, found, nil))
}

// Suggest lists the names in the file, or other holder, in which a name is missing, and suggests
// one that may be meant.
func Suggest(holder, missing string, found, used []string) string {
	if len(found) == 0 {
		return holder + " holds no arrays"
	}
	quoted := lists.Map(found, func(name string) string { return fmt.Sprintf("%.40q", name) })
	says := holder + " holds " + Some(quoted, MostListed)
	others := slices.DeleteFunc(slices.Clone(found), func(name string) bool { return slices.Contains(used, name) })
	if nearest := Nearest(missing, others); nearest != "" {
		says += fmt.Sprintf(": did you mean %q?", nearest)
	}
	return says
}

// MostListed is how many names an error lists.
const MostListed = 12

// Some lists the first names, and says how many more there are.
func Some(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

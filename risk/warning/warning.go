// Package warning holds the table of warnings: one row says all that is known of a code, for results, texts, JSON,
// help and documents alike. A new warning is one row here, and the place that gives it:
//
//	var LowCounts = row(Kind{Code: "low-counts", Severity: Caution, Says: "...", Do: "..."})
//	...
//	return []warning.Warning{warning.LowCounts.With("%d of %d counts are below 5", n, d)}
//
// A program of its own adds one by [Register].
package warning

import (
	"fmt"
	"slices"
	"strings"

	"surepipe/internal/lists"
)

// Warning is a reason to doubt a number, or something to know about it.
type Warning struct {
	// Code is short, for programs.
	Code string `json:"code"`
	// Text is a sentence for people: what is wrong and what can be done.
	Text string `json:"text"`
}

// Severity says what a warning means for the numbers that it comes with.
type Severity int

const (
	// Note is something to know about data, files or a choice: the numbers stand.
	Note Severity = iota
	// Caution says that an assumption is in doubt, or that a part of the result is missing: the exit status stays 0.
	Caution
	// Doubt says that the numbers are not to be trusted: the exit status is 3.
	Doubt
)

// String is its word in the JSON: note, caution or doubt.
func (s Severity) String() string {
	return [...]string{Note: "note", Caution: "caution", Doubt: "doubt"}[s]
}

// MarshalText writes [Severity.String].
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Kind is all that is known of a code.
type Kind struct {
	Code     string
	Severity Severity
	// Says is what it means, and Do what can be done, as clauses; code stands in backquotes.
	Says, Do string
	// Hint says that a command prints Do after the text of a result.
	Hint bool
	// Samples, if not "", is its text for the mean of many samples, after "at 3 of 20 samples".
	Samples string
	// Quiet says that commands do not print it: it is in the JSON, and in the guide.
	Quiet bool
	// Run says that it is about a run as a whole, so that the lines of all its samples have it.
	Run bool
}

// kinds are the rows of the table, in their order.
var kinds []*Kind

func row(k Kind) *Kind {
	if k.Code == "" || Find(k.Code) != nil {
		panic(fmt.Sprintf("warning: the code %q is empty or taken", k.Code))
	}
	kinds = append(kinds, &k)
	return &k
}

// Register adds a kind, such as one that a criterion from outside gives; it is to be called before the first result.
// It panics where the code is empty or taken.
func Register(k Kind) *Kind { return row(k) }

// Kinds are all kinds, the gravest first.
func Kinds() []*Kind {
	return slices.SortedStableFunc(slices.Values(kinds), func(a, b *Kind) int { return int(b.Severity - a.Severity) })
}

// Find is the kind of a code, nil for none.
func Find(code string) *Kind {
	k, _ := lists.Find(kinds, func(k *Kind) bool { return k.Code == code })
	return k
}

// With is a warning of this kind with a text.
func (k *Kind) With(format string, args ...any) Warning {
	return Warning{Code: k.Code, Text: fmt.Sprintf(format, args...)}
}

// Is reports whether the warning is of a kind.
func (w Warning) Is(k *Kind) bool { return w.Code == k.Code }

// Hint is what can be done, in brackets after a space; "" where the text says it.
func (w Warning) Hint() string {
	if k := Find(w.Code); k != nil && k.Hint {
		return " (" + strings.ReplaceAll(k.Do, "`", "") + ")"
	}
	return ""
}

// OfRun reports whether it is about a run as a whole.
func (w Warning) OfRun() bool {
	k := Find(w.Code)
	return k != nil && k.Run
}

// Severity is that of its kind; a code that stands in no row is a Doubt.
func (w Warning) Severity() Severity {
	if k := Find(w.Code); k != nil {
		return k.Severity
	}
	return Doubt
}

// Trusted reports that none of the warnings is a Doubt.
func Trusted(all []Warning) bool {
	return !slices.ContainsFunc(all, func(w Warning) bool { return w.Severity() == Doubt })
}

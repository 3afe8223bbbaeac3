package differential

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Report counts outcomes.
type Report struct {
	// Cases, Right, Wrong, Marked (right and wrong), NoReference and Ambiguous are numbers of
	// cases. MarkedClear are those marked although right and not ambiguous, Plain the cases
	// without a hostile feature, and PlainMarked those of them that are marked and not ambiguous.
	Cases, Right, Wrong, MarkedRight, MarkedWrong, MarkedClear, NoReference, Ambiguous int
	Plain, PlainMarked                                                                 int
	// Elapsed is the time of the program under test and Check that of the reference, over all
	// cases.
	Elapsed, Check time.Duration

	kinds    map[string]*tally // by regularizer, operator, solver, derivative, and feature
	codes    map[string]*tally // by warning
	failures map[string]int    // wrong, by regularizer and solver
}

// tally counts the cases of one kind.
type tally struct{ cases, wrong, markedRight, markedWrong, ambiguous, noReference int }

// NewReport returns a report of no cases.
func NewReport() *Report {
	return &Report{kinds: map[string]*tally{}, codes: map[string]*tally{}, failures: map[string]int{}}
}

// Add counts a case.
func (r *Report) Add(c *Case, o *Outcome) {
	r.Cases++
	r.Elapsed += o.Elapsed
	r.Check += o.Check
	switch o.Verdict {
	case Right:
		r.Right++
	case MarkedRight:
		r.MarkedRight++
		if !o.Ambiguous {
			r.MarkedClear++
		}
	case MarkedWrong:
		r.MarkedWrong++
	case Wrong:
		r.Wrong++
		r.failures[c.Reg.Kind+" "+c.Solver+" "+c.Derivative]++
	case NoReference:
		r.NoReference++
	}
	if o.Ambiguous {
		r.Ambiguous++
	}
	if len(c.Features) == 0 {
		r.Plain++
		if len(o.Codes) > 0 && !o.Ambiguous {
			r.PlainMarked++
		}
	}
	derivative := c.Derivative
	if o.Risk.Derivative != "" && o.Risk.Derivative != derivative {
		derivative += " " + o.Risk.Derivative
	}
	names := []string{"regularizer " + c.Reg.Kind, "operator " + c.Op.Kind, "solver " + c.Solver,
		"derivative " + derivative}
	if c.Name != "" {
		names = append(names, "problem "+c.Name)
	}
	if c.Squares != nil {
		names = append(names, "squares and "+c.Reg.Kind)
		for _, s := range c.Squares {
			names = append(names, "squares of "+s.Op.Kind)
		}
	}
	if len(c.Features) == 0 {
		names = append(names, "feature -")
	}
	for _, f := range c.Features {
		names = append(names, "feature "+f)
	}
	for _, name := range names {
		count(r.kinds, name, o)
	}
	for _, code := range o.Codes {
		count(r.codes, code+" ("+c.Reg.Kind+" "+c.Solver+")", o)
		count(r.codes, code, o)
	}
}

func count(in map[string]*tally, name string, o *Outcome) {
	t := in[name]
	if t == nil {
		t = &tally{}
		in[name] = t
	}
	t.cases++
	switch o.Verdict {
	case Wrong:
		t.wrong++
	case MarkedRight:
		t.markedRight++
	case MarkedWrong:
		t.markedWrong++
	case NoReference:
		t.noReference++
	}
	if o.Ambiguous {
		t.ambiguous++
	}
}

// Write prints the tables.
func (r *Report) Write(w io.Writer) {
	share := func(n int) string { return fmt.Sprintf("%d (%.2f%%)", n, 100*float64(n)/float64(max(r.Cases, 1))) }
	fmt.Fprintf(w, "%d cases: wrong and unmarked %s, marked and wrong %s, marked though right %s, of these not "+
		"ambiguous %s, ambiguous %s, no reference %s\n",
		r.Cases, share(r.Wrong), share(r.MarkedWrong), share(r.MarkedRight), share(r.MarkedClear), share(r.Ambiguous),
		share(r.NoReference))
	fmt.Fprintf(w, "%d without a hostile feature, of these marked and not ambiguous %d (%.2f%%)\n", r.Plain,
		r.PlainMarked, 100*float64(r.PlainMarked)/float64(max(r.Plain, 1)))
	fmt.Fprintf(w, "%.2f ms per case, and %.2f ms for the reference\n",
		1e3*r.Elapsed.Seconds()/float64(max(r.Cases, 1)), 1e3*r.Check.Seconds()/float64(max(r.Cases, 1)))
	table := func(title string, of map[string]*tally) {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(t, "cases\twrong\tmarked wrong\tmarked right\tambiguous\tno reference\t  %s\n", title)
		for _, name := range slices.Sorted(maps.Keys(of)) {
			k := of[name]
			fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%d\t%d\t  %s\n", k.cases, k.wrong, k.markedWrong, k.markedRight,
				k.ambiguous, k.noReference, name)
		}
		t.Flush()
	}
	table("kind", r.kinds)
	table("warning", r.codes)
	if len(r.failures) > 0 {
		names := slices.SortedFunc(maps.Keys(r.failures), func(a, b string) int {
			return cmp.Or(cmp.Compare(r.failures[b], r.failures[a]), strings.Compare(a, b))
		})
		fmt.Fprintln(w, "wrong and unmarked:")
		for _, name := range names {
			fmt.Fprintf(w, "%6d  %s\n", r.failures[name], name)
		}
	}
}

package load

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"surepipe/array"
	"surepipe/internal/digits"
	"surepipe/internal/lists"
	"surepipe/internal/sublist"
	"surepipe/linops/additive"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/risk"
	"surepipe/risk/warning"
	"surepipe/study"
	"surepipe/vjp"
)

const (
	// mostTried is the number of entries of which fits with different effects are compared; of more it is those of some
	// of the rows and columns, where these keep leastTried entries on average.
	mostTried  = 1500
	leastTried = 15
	// worthFits is how many times the least error of effects alone those of rows or columns may have for fits to be
	// tried with them, and worthPlain the others.
	worthFits, worthPlain = 20, 1.2
	// leastOptimism is how small, in standard errors, what the search takes from an error counts as none.
	leastOptimism = 0.01
)

// triedWeights are the weights of these fits, as parts of the largest, at which the effects are alone. Each is about as
// many times smaller than the one before it.
var triedWeights = []float64{0.05, 0.13, 0.36}

// trial is what is known of a completion with some effects: its least error of predicting an entry that is left out.
type trial struct {
	problems.Effects
	fit     risk.Fit
	stdErr  float64
	errors  []float64 // of each entry, with the effects alone
	missing []bool    // which entries these cannot predict, nil for none
	alone   float64   // the mean of the errors
	fitted  bool
}

// tries are completions of the same entries with different effects.
type tries struct {
	problems.Data
	rows, columns []int // of the entries, numbered
	m, n          int   // the rows and columns that have some
}

// chooseEffects sets the effects of a completion for which nothing was said of them.
func (f *Source) chooseEffects(data *Contents) error {
	if !f.EffectsOpen {
		return nil
	}
	t, ok := triesOf(data.Data)
	if !ok {
		return nil // which the problem will say
	}
	if slices.Contains(data.Weights, 0) {
		data.EffectsChoice = &problems.EffectsChoice{Why: "an entry has weight 0"}
		return nil
	}
	if data.Stack != nil || data.Simulated {
		all := t.possible() // none is one of them
		data.Effects = all[len(all)-1]
		data.EffectsChoice = &problems.EffectsChoice{Why: "all samples of y have the same"}
		return nil
	}
	return t.choose(f.ctx, f.Problem, &data.Data)
}

// triesOf are the entries of a matrix; false where they are none.
func triesOf(data problems.Data) (t tries, ok bool) {
	t.Data, t.rows, t.columns = data, make([]int, len(data.Indices)), make([]int, len(data.Indices))
	if len(data.Shape) != 2 || min(data.Shape[0], data.Shape[1]) < 1 || len(data.Y) != len(data.Indices) ||
		data.Weights != nil && len(data.Weights) != len(data.Y) {
		return t, false
	}
	for i, c := range data.Indices {
		if c < 0 || c/data.Shape[1] >= data.Shape[0] {
			return t, false
		}
		t.rows[i], t.columns[i] = c/data.Shape[1], c%data.Shape[1]
	}
	t.m, t.n = len(sublist.Number(t.rows, data.Shape[0])), len(sublist.Number(t.columns, data.Shape[1]))
	return t, len(data.Y) > 0
}

// possible are the effects that leave something to estimate, those of fewer degrees of freedom first.
func (t *tries) possible() (all []problems.Effects) {
	d := len(t.Y)
	for _, e := range []struct {
		problems.Effects
		df int
	}{
		{problems.Effects{}, 0}, {problems.Effects{Mean: true}, 1},
		{problems.Effects{Mean: true, Columns: true}, t.n}, {problems.Effects{Mean: true, Rows: true}, t.m},
		{problems.Effects{Mean: true, Rows: true, Columns: true}, t.m + t.n - 1},
	} {
		if e.df < d && (!e.Rows || !e.Columns || min(t.m, t.n) <= additive.MostEffects) {
			all = append(all, e.Effects)
		}
	}
	return all
}

// part are the entries at some places.
func (t *tries) part(at []int) tries {
	p := t.Data
	p.Y, p.Indices, p.YShape, p.Mu = lists.Pick(t.Y, at), lists.Pick(t.Indices, at), nil, nil
	if p.Weights != nil {
		p.Weights = lists.Pick(t.Weights, at)
	}
	some, _ := triesOf(p)
	return some
}

// block are the entries of some of the rows and columns, evenly spaced and as near to equally many as there are, that
// hold about [mostTried] of all; ok is false where these are too few in each row or column.
func (t *tries) block() (some tries, ok bool) {
	d := float64(len(t.Y))
	if d <= mostTried {
		return *t, true
	}
	cells := float64(t.m) * float64(t.n) * mostTried / d
	short := min(math.Sqrt(cells), float64(min(t.m, t.n)))
	rows, columns := int(short), int(cells/short)
	if t.m > t.n {
		rows, columns = columns, rows
	}
	few := func(lines, of int) bool { return mostTried/float64(lines) < min(leastTried, d/float64(of)) }
	if few(rows, t.m) || few(columns, t.n) {
		return some, false
	}
	in := func(line, of, all int) bool { return (line+1)*of/all > line*of/all }
	at := lists.Places(len(t.Y), func(i int) bool {
		return in(t.rows[i], rows, t.m) && in(t.columns[i], columns, t.n)
	})
	return t.part(at), len(at) > mostTried/2
}

// choose compares the effects by the error of predicting an entry that is left out: with each the least of those of the
// effects alone, which are exact, and of fits at few weights where these are worth it.
func (t *tries) choose(ctx context.Context, problem string, to *problems.Data) error {
	some, fits := t.block()
	if !fits {
		some = *t
	}
	if err := array.UseNative(); err != nil {
		return study.Bad(err)
	}
	dev := array.NewHost()
	defer dev.Close()
	all, err := some.alone(dev)
	if err != nil || len(all) == 0 {
		return err
	}
	byAlone := func(a, b *trial) int { return cmp.Compare(a.alone, b.alone) }
	least := slices.MinFunc(all, byAlone)
	best := least
	if fits && t.Weights == nil {
		for _, try := range slices.SortedStableFunc(slices.Values(all), byAlone) {
			worth := worthPlain
			if try.Rows || try.Columns {
				worth = worthFits
			}
			if try.alone > worth*least.alone {
				continue
			}
			if err := some.fit(ctx, dev, problem, try, best); err != nil {
				return err
			}
			if try.fit.Value < best.fit.Value {
				best = try
			}
		}
	}
	to.Effects = best.Effects
	to.EffectsChoice = choiceOf(all, best, len(some.Y), len(t.Y))
	return nil
}

// alone are the errors with each of the effects alone. Entries that one of them cannot predict are left out, or where
// these are most entries those effects, of rows and columns first.
func (t *tries) alone(dev array.Device) (all []*trial, err error) {
	for _, e := range t.possible() {
		try := &trial{Effects: e, errors: make([]float64, len(t.Y))}
		rest, leverages := slices.Clone(t.Y), make([]float64, len(t.Y))
		if e.Some() {
			shape := array.Shape{Rows: t.Shape[0], Cols: t.Shape[1]}
			fit, err := additive.NewEffects(dev, shape, t.Indices, e.Rows, e.Columns, t.Weights)
			if err != nil {
				return nil, study.Bad(err)
			}
			z := dev.Put(rest, 1, len(rest))
			fit.Remove(z)
			rest, leverages = z.ToHost(), fit.Diagonal()
			z.Free()
			try.missing = fit.Determined()
			fit.Release()
		}
		for i, r := range rest {
			r /= 1 - leverages[i]
			try.errors[i] = r * r
		}
		all = append(all, try)
	}
	at := predicted(all, len(t.Y))
	for ; len(at) < 2 || 2*len(at) < len(t.Y); at = predicted(all, len(t.Y)) {
		if all = all[:len(all)-1]; len(all) == 0 {
			return nil, nil
		}
	}
	for _, try := range all {
		try.errors = lists.Pick(try.errors, at)
		mean, deviation := stat.MeanStdDev(try.errors, nil)
		try.alone, try.stdErr = mean, deviation/math.Sqrt(float64(len(at)))
		try.fit.Value = mean
	}
	*t = t.part(at)
	return all, nil
}

// predicted are the entries that all can predict.
func predicted(all []*trial, d int) []int {
	return lists.Places(d, func(i int) bool {
		return !slices.ContainsFunc(all, func(try *trial) bool { return try.missing != nil && try.missing[i] })
	})
}

// fit looks for a lower error among fits at few weights. It ends where the error, if it falls as many times from weight
// to weight as it did, does not come to that of the best within its standard error: it falls by less each time.
func (t *tries) fit(ctx context.Context, dev array.Device, name string, try, best *trial) error {
	data := t.Data
	data.Effects = try.Effects
	if !slices.Contains(t.possible(), try.Effects) {
		return nil
	}
	top, err := problems.ParseWeight("max")
	if err != nil {
		return err
	}
	problem, err := problems.New(name, dev, data, problems.Hyper{Lambda: top})
	if err != nil {
		return nil // as where the effects leave nothing: they stand alone
	}
	defer problem.Release()
	named, _ := problems.Lookup(name)
	o := Fits{Device: dev, Solver: "auto", Settings: vjp.Options{Images: true, Compact: true, Tol: named.Tol()}}
	grid := lists.Map(triedWeights, func(w float64) float64 { return w * problem.Lambda })
	sweep := pipeline.SweepOptions{Criterion: risk.ALO, Refine: -1, Estimate: true}
	sweep.ALO, sweep.TraceError = true, pipeline.DefaultTraceError
	before := try.alone
	for p, err := range pipeline.Sweep(ctx, data.Y, fitsFamily(problem, "lambda", o), [][]float64{grid}, sweep) {
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			return nil
		}
		if p.Stage != pipeline.GridStage {
			break
		}
		value, stdErr := p.Estimated(risk.ALO)
		if p.Trusted() && stdErr < value && value < try.fit.Value {
			try.fit, try.stdErr, try.fitted = risk.Fit{Value: value, Digest: p.Digest}, stdErr, true
		}
		left := float64(len(grid) - 1 - p.Index)
		if value*math.Pow(min(value/before, 1), left) > best.fit.Value+best.stdErr {
			break
		}
		before = value
	}
	return nil
}

// choiceOf is what is said of a choice. The error of the best is too small because it was looked for: the means of what
// chance alone makes the others' smaller than it, by the errors of the differences, are added up.
func choiceOf(all []*trial, best *trial, entries, of int) *problems.EffectsChoice {
	c := &problems.EffectsChoice{Entries: entries, Of: of}
	by := risk.Comparison{Criterion: risk.ALO}
	for _, try := range all {
		c.Tried = append(c.Tried, problems.EffectsTried{Effects: cmp.Or(strings.Join(try.Names(), ","), "none"),
			Error: try.fit.Value, StdErr: try.stdErr, Fitted: try.fitted})
		if try == best {
			c.Best = len(c.Tried) - 1
			continue
		}
		d := by.Difference(try.fit, best.fit)
		if !try.fitted && !best.fitted {
			between := make([]float64, len(try.errors))
			floats.SubTo(between, try.errors, best.errors)
			d.StdErr = stat.StdDev(between, nil) / math.Sqrt(float64(len(between)))
		}
		if d.StdErr > 0 {
			away := d.Value / d.StdErr
			c.Optimism += d.StdErr * (distuv.UnitNormal.Prob(away) - away*distuv.UnitNormal.Survival(away))
		}
	}
	if c.Optimism < leastOptimism*best.stdErr {
		c.Optimism = 0
	}
	return c
}

// noteEffects says which effects were chosen, and by what.
func (f *Source) noteEffects(n *study.Notes, data problems.Data) {
	c := data.EffectsChoice
	if c == nil {
		return
	}
	chosen := cmp.Or(strings.Join(data.Effects.Names(), ","), "none")
	if c.Tried == nil {
		n.Add(warning.ChosenEffects, "effects: %s, as %s; --effects takes others", chosen, c.Why)
		return
	}
	var others []string
	for i, try := range c.Tried {
		if i != c.Best {
			others = append(others, fmt.Sprintf("%s %.4g", try.Effects, try.Error))
		}
	}
	by, some := "fits at few weights", ""
	if !slices.ContainsFunc(c.Tried, func(t problems.EffectsTried) bool { return t.Fitted }) {
		by = "the effects alone"
	}
	if c.Entries < c.Of {
		some = fmt.Sprintf(" of %d of %d entries", c.Entries, c.Of)
	}
	best, small := c.Tried[c.Best], "which makes them too small by less than a hundredth of their standard errors"
	if c.Optimism > 0 {
		small = fmt.Sprintf("and are too small by up to about %s for that", digits.Error(c.Optimism))
	}
	n.Add(warning.ChosenEffects, "effects: %s, chosen by leave-one-out of %s%s: %s (others: %s); printed errors take "+
		"the choice as given, %s; --effects takes others", chosen, by, some, digits.PlusMinus(best.Error, best.StdErr),
		strings.Join(others, ", "), small)
}

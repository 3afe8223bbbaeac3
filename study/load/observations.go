package load

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/design"
	"surepipe/internal/lists"
	"surepipe/loss"
	"surepipe/study"
)

// observations are arrays with a number for each value of y, by the names of the options of a table that name them.
type observations map[string][]float64

// mostOffset is the size of offsets beyond which their exponentials are out of range.
const mostOffset = 700

// observe takes what is known of the observations into the data: the weights of the loss, the offset of the linear
// predictor, and of trials the share of successes, weighted by their number:
//
//	w_i = weight_i n_i     y_i = successes_i / n_i     offset_i + log exposure_i
//
// and the times of events.
// With the squared loss the offset is subtracted from y and mu.
func (f *Source) observe(data *Contents, o observations) error {
	d, each := len(data.Y), 1
	if f.columns() && len(data.YShape) == 2 {
		d, each = data.YShape[0], data.YShape[1]
	}
	for _, c := range (design.Beside{}).Named() {
		v, given := o[c.Option]
		switch {
		case !given:
			continue
		case len(v) != d:
			return fmt.Errorf("array %q has %d values, expected %d, one for each value of \"y\"", c.Option, len(v), d)
		case data.Stack != nil && c.Option == "trials":
			return fmt.Errorf("array \"trials\" is given with a stack of samples, expected a single y")
		case c.Timed && !f.LossOf().Row().Timed:
			return study.Errorf("--%s is for the losses of events at times, such as --loss cox, and the loss is %s",
				c.Option, cmp.Or(f.LossOf().Name, "squared"))
		}
		if i := slices.IndexFunc(v, func(x float64) bool {
			return math.IsNaN(x) || math.IsInf(x, 0) || x < 0 && !c.Signed || x == 0 && c.Positive
		}); i >= 0 {
			expected := "numbers of at least 0"
			switch {
			case c.Positive:
				expected = "positive numbers"
			case c.Signed:
				expected = "finite numbers"
			}
			return fmt.Errorf("array %q holds %g at [%d], expected %s", c.Option, v[i], i, expected)
		}
	}
	data.Weights, data.Times = o["weights"], loss.Times{Time: o["time"], Start: o["start"], Strata: o["strata"]}
	if err := f.tries(data, o["trials"]); err != nil {
		return err
	}
	if f.LossOf().Squared() && o["exposure"] != nil {
		return study.Errorf("--exposure is for a loss with a logarithm as its link, such as poisson, and the loss is " +
			"squared: expected --offset")
	}
	if o["exposure"] == nil && o["offset"] == nil {
		return nil
	}
	data.Offset = make([]float64, d*each)
	for i := range data.Offset {
		if v := o["offset"]; v != nil {
			data.Offset[i] = v[i/each]
		}
		if v := o["exposure"]; v != nil {
			data.Offset[i] += math.Log(v[i/each])
		}
		if v := data.Offset[i]; f.LossOf().Row().Transforms && math.Abs(v) > mostOffset {
			return fmt.Errorf("array \"offset\" holds %g at [%d], expected numbers of size at most %d: exp of a "+
				"linear predictor is out of range beyond; --exposure takes an exposure itself, not its logarithm",
				v, i/each, mostOffset)
		}
	}
	if f.LossOf().Squared() {
		data.subtract(data.Offset)
	}
	return nil
}

func (c *Contents) subtract(offset []float64) {
	without := func(y []float64) []float64 { return floats.SubTo(make([]float64, len(y)), y, offset) }
	if c.Y = without(c.Y); c.Stack != nil {
		c.Stack = lists.Map(c.Stack, without)
		c.Y = c.Stack[0]
	}
	switch {
	case c.Simulated:
		c.Mu = c.Y
	case c.Mu != nil:
		c.Mu = without(c.Mu)
	}
}

func (f *Source) tries(data *Contents, trials []float64) error {
	if trials == nil {
		return nil
	}
	if l := f.LossOf(); !l.Row().Trials {
		return study.Errorf("--trials is for --loss %s, and the loss is %q",
			loss.NamesThat(func(k loss.Kind) bool { return k.Trials }), cmp.Or(l.Name, "squared"))
	}
	y, w := make([]float64, len(trials)), make([]float64, len(trials))
	share := slices.IndexFunc(data.Y, func(v float64) bool { return v != math.Trunc(v) })
	if share >= 0 && slices.Max(data.Y) <= 1 {
		return fmt.Errorf("array \"y\" holds %g at [%d], expected numbers of successes among the trials; shares of "+
			"successes are a y for --weights with the numbers of trials", data.Y[share], share)
	}
	for i, n := range trials {
		switch v := data.Y[i]; {
		case !(v >= 0 && v <= n):
			return fmt.Errorf("array \"y\" holds %g at [%d], expected a number of successes among the %g trials", v, i,
				n)
		case n > 0:
			y[i] = v / n
		}
		if w[i] = n; data.Weights != nil {
			w[i] *= data.Weights[i]
		}
	}
	data.Y, data.Weights = y, w
	return nil
}

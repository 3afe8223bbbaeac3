package differential

import (
	"encoding/json"
	"flag"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"surepipe/array"
	"surepipe/array/arraytest"
)

var (
	cases   = flag.Int("cases", 0, "how many cases to run; 0 for the usual number")
	seed    = flag.Uint64("seed", 1, "the seed of the cases")
	first   = flag.Int("first", 0, "the number of the first case")
	one     = flag.Int("case", -1, "run this case of the seed alone, and print it")
	problem = flag.String("problem", "", "run the case in this JSON file alone")
	maxIter = flag.Int("maxiter", 0, "the iterations that every case may take, instead of its own number")
	shrink  = flag.Int("shrink", 10, "how many of the failures to look for smaller ones of")
)

// The usual numbers of cases.
const (
	usual    = 2000
	short    = 400
	emulated = 40
)

// TestNoWrongNumberIsUnmarked draws problems and compares every risk estimate with the
// reference's. Of a long run the tables tell how often results are marked:
//
//	go test ./internal/differential -run Unmarked -v -cases 100000 -timeout 0
//
// One case again:
//
//	go test ./internal/differential -run Unmarked -v -seed 1 -case 206
func TestNoWrongNumberIsUnmarked(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		n := *cases
		slow := arraytest.Emulated(t, dev)
		switch {
		case *one >= 0 || *problem != "":
			again(t, dev)
			return
		case n == 0 && slow:
			n = emulated
		case n == 0 && testing.Short():
			n = short
		case n == 0:
			n = usual
		}
		report, failed := runAll(dev, n, slow)
		for i, f := range failed {
			if i < *shrink {
				small := Shrink(dev, f.c, 3*time.Second)
				t.Errorf("-seed %d -case %d: %s\n%v\n%s\nsmaller: %s\n%s", f.c.Seed, f.c.Index, f.o.Detail,
					f.c.Features, f.c, Run(dev, small).Detail, small)
			} else {
				t.Errorf("-seed %d -case %d: %s; %s %s %s %s %v", f.c.Seed, f.c.Index, f.o.Detail, f.c.Op.Kind,
					f.c.Reg.Kind, f.c.Solver, f.c.Derivative, f.c.Features)
			}
		}
		var text strings.Builder
		report.Write(&text)
		t.Log(text.String())
		if most := n/50 + 2; report.NoReference > most {
			t.Errorf("%d of %d cases have no reference, expected %d at most", report.NoReference, n, most)
		}
	})
}

// failure is a case that is wrong and unmarked.
type failure struct {
	c *Case
	o Outcome
}

// runAll runs n cases on all processors. Results do not depend on how these share them.
func runAll(dev array.Device, n int, slow bool) (*Report, []failure) {
	outcomes := make([]*Outcome, n)
	drawn := make([]*Case, n)
	var next atomic.Int64
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				c := Generate(*seed, *first+i)
				if slow {
					c.MaxIter = 300
				}
				if *maxIter > 0 {
					c.MaxIter = *maxIter
				}
				o := Run(dev, c)
				o.Risk.B, o.Risk.MuHat = nil, nil
				drawn[i], outcomes[i] = c, &o
			}
		})
	}
	wait.Wait()
	report := NewReport()
	var failed []failure
	for i, o := range outcomes {
		report.Add(drawn[i], o)
		if o.Verdict == Wrong {
			failed = append(failed, failure{drawn[i], *o})
		}
	}
	return report, failed
}

// again runs one case and prints all that is known of it.
func again(t *testing.T, dev array.Device) {
	c := &Case{}
	if *problem != "" {
		text, err := os.ReadFile(*problem)
		if err == nil {
			err = json.Unmarshal(text, c)
		}
		if err != nil {
			t.Fatal(err)
		}
	} else {
		c = Generate(*seed, *one)
	}
	if *maxIter > 0 {
		c.MaxIter = *maxIter
	}
	o := Run(dev, c)
	r := o.Risk
	t.Logf("%s\n%v\nverdict %d %s; warnings %v, ambiguous %v, %v and %v for the reference\nSURE %.10g +- %.3g, "+
		"divergence %.10g +- %.3g (%s, %s), residual %.10g, %d iterations, converged %v, optimality %.2g\nmu_hat "+
		"%v\nb %v\nreference %+v",
		c, c.Features, o.Verdict, o.Detail, o.Codes, o.Ambiguous, o.Elapsed, o.Check,
		r.SURE, r.StdErr, r.Trace.Trace, r.Trace.StdErr, r.Trace.Estimator, r.Derivative, r.Residual, r.Iterations,
		r.Converged, r.Optimality, r.MuHat, r.B, *o.Reference)
	if o.Verdict == Wrong {
		small := Shrink(dev, c, 20*time.Second)
		t.Errorf("%s\nsmaller: %s\n%s", o.Detail, Run(dev, small).Detail, small)
	}
}

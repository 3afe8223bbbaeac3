package progress_test

import (
	"context"
	"fmt"

	"surepipe/progress"
)

// Work reports to whoever listens in its context.
func Example() {
	work := func(ctx context.Context) {
		report := progress.From(ctx)
		for step := range 3 {
			report(progress.Report{Stage: progress.Probes, Step: step + 1, Steps: 3})
		}
	}
	work(context.Background()) // nobody listens
	work(progress.With(context.Background(), func(r progress.Report) {
		fmt.Printf("%s %d of %d\n", r.Stage, r.Step, r.Steps)
	}))
	// Output:
	// probes 1 of 3
	// probes 2 of 3
	// probes 3 of 3
}

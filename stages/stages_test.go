package stages_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"surepipe/stages"
)

// double and describe are user-defined stages: they compose with Start like those of the package.
func double(ctx context.Context, in <-chan int, out chan<- int) error {
	for v := range in {
		select {
		case out <- 2 * v:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func describe(ctx context.Context, in <-chan int, out chan<- string) error {
	for v := range in {
		select {
		case out <- fmt.Sprintf("<%d>", v):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func Example() {
	g, ctx := errgroup.WithContext(context.Background())
	source := make(chan int)
	g.Go(func() error {
		defer close(source)
		for i := range 3 {
			source <- i
		}
		return nil
	})
	doubled := stages.Start(ctx, g, 1, source, double)
	for s := range stages.Start(ctx, g, 1, doubled, describe) {
		fmt.Println(s)
	}
	fmt.Println(g.Wait())
	// Output:
	// <0>
	// <2>
	// <4>
	// <nil>
}

// The first error of any worker ends every stage, and it is the group's error.
func TestAFailingWorkerStopsTheChain(t *testing.T) {
	broken := errors.New("broken")
	fail := func(ctx context.Context, in <-chan int, out chan<- int) error {
		for v := range in {
			if v == 3 {
				return broken
			}
			select {
			case out <- v:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
	for range 100 {
		g, ctx := errgroup.WithContext(context.Background())
		source := make(chan int)
		g.Go(func() error {
			defer close(source)
			for i := 0; ; i++ {
				select {
				case source <- i:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		})
		out := stages.Start(ctx, g, 2, stages.Start(ctx, g, 3, source, fail), double)
		done := make(chan struct{})
		go func() {
			for range out {
			}
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(5 * time.Second):
			t.Fatal("the chain does not end")
		}
		if err := g.Wait(); !errors.Is(err, broken) {
			t.Fatalf("the group ended with %v", err)
		}
	}
}

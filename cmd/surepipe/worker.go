package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/cmd/surepipe/internal/worker"
	"surepipe/internal/lists"
	"surepipe/study"
	"surepipe/study/request"
)

func newWorker() *cobra.Command {
	var directory string
	var schema bool
	cmd := &cobra.Command{
		Use:     "worker",
		Short:   "Serve estimates to programs in other languages",
		Long:    helpText("worker"),
		Example: "  surepipe worker --directory /dev/shm\n  surepipe worker --schema > worker.schema.json",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if schema {
				options, _ := workerRequest(worker.Every)
				text, err := worker.Schema(options)
				if err == nil {
					_, err = cmd.OutOrStdout().Write(text)
				}
				return err
			}
			if info, err := os.Stat(directory); directory != "" && (err != nil || !info.IsDir()) {
				return study.Errorf("--directory is %q, expected a directory", directory)
			}
			ctx, stop := withParent(cmd.Context())
			defer stop()
			return worker.Serve(ctx, worker.Options{In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Directory: directory,
				Request: workerRequest})
		},
	}
	cli.Bind(cmd,
		cli.Flag{Name: "directory", To: &directory, Usage: "where the `directory` for the arrays of results is made " +
			"(default: that for temporary files)"},
		cli.Flag{Name: "schema", To: &schema, Usage: "print the JSON schema of the protocol, and end"})
	return cmd
}

// workerParts are the parts of the table of a request's options, and namesOfParts the names in each: a request makes
// only those that it takes some of.
var (
	workerParts  = append(slices.Clone(parts), (*estimation).foldFlags)
	namesOfParts = sync.OnceValue(func() [][]string {
		e := estimation{Request: request.New(), cmd: &cobra.Command{Use: "worker"}}
		return lists.Map(workerParts, func(part func(*estimation) []cli.Flag) []string {
			return lists.Map(part(&e), func(f cli.Flag) string { return f.Name })
		})
	})
)

// workerRequest makes a request, with those options of surepipe run whose names are wanted.
func workerRequest(wanted func(name string) bool) (*pflag.FlagSet, *request.Request) {
	e := estimation{Request: request.New(), cmd: &cobra.Command{Use: "worker"}}
	set := pflag.NewFlagSet("options", pflag.ContinueOnError)
	for i, names := range namesOfParts() {
		if slices.ContainsFunc(names, wanted) {
			cli.Define(set, slices.DeleteFunc(workerParts[i](&e), func(f cli.Flag) bool { return !wanted(f.Name) })...)
		}
	}
	e.Given = set.Changed
	return set, e.Request
}

// withParent is a context that ends with the parent of this process, also where others hold the ends of its pipes open.
func withParent(ctx context.Context) (context.Context, func()) {
	signal.Ignore(syscall.SIGPIPE) // an answer that nobody reads is an error, and the end follows in order
	ctx, cancel := context.WithCancelCause(ctx)
	parent := os.Getppid()
	go func() {
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
				if os.Getppid() != parent {
					cancel(fmt.Errorf("the parent of the worker has ended"))
				}
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

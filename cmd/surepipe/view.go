package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/study"
	"surepipe/study/page"
)

// pageFlag is --report, a page to look at.
type pageFlag struct{ report string }

func (f *pageFlag) register(cmd *cobra.Command, more string) {
	cli.Bind(cmd, cli.Flag{Name: "report", To: &f.report, Brief: "write a page to look at: .html",
		Usage: "write a page to look at to this .html `file`, which needs no network" + more, Role: cli.Writes,
		Extensions: []string{"html"}})
}

func (f *pageFlag) check() error {
	if f.report != "" && filepath.Ext(f.report) != ".html" {
		return study.Errorf("--report is %q, expected a name that ends in .html", f.report)
	}
	return nil
}

// write writes the page of a command, if it is wanted. name is that of the data.
func (f *pageFlag) write(cmd *cobra.Command, name string, fill func(*page.Document)) error {
	if f.report == "" {
		return nil
	}
	d := page.New(name, cli.CommandLine(cmd), cli.PythonLine(cmd))
	fill(d)
	return d.Write(f.report)
}

func (f *pageFlag) look(s *study.Sweep) {
	if f.report == "" {
		return
	}
	l := page.NewLooker(s.Estimator, s.Data, s.Total()+max(0, s.Options.Refine)*len(s.Axes))
	s.Look, s.Options.KeepB = l.Look, s.Options.KeepB || l.NeedsB()
}

func newView() *cobra.Command {
	port := 0
	cmd := &cobra.Command{
		Use:   "view FILE...",
		Short: "Show a run's file in a browser, also while it is written",
		Long:  helpText("view"),
		Example: `  surepipe view sweep.jsonl
  surepipe view --port 8080 mc.jsonl`,
		RunE: func(cmd *cobra.Command, files []string) error { return view(cmd, port, files) },
	}
	cli.Bind(cmd, cli.Flag{Name: "port", To: &port, Usage: "the port of the page; 0 takes one that is free"})
	return cmd
}

func view(cmd *cobra.Command, port int, files []string) error {
	switch {
	case len(files) == 0:
		return study.Errorf("surepipe view takes the files of a run, found none")
	case port < 0 || port > 65535:
		return study.Errorf("--port is %d, expected 0 to 65535", port)
	}
	for _, path := range files {
		switch err := checkRunFile(path); {
		case errors.Is(err, fs.ErrNotExist):
			fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: %s does not exist: waiting for it\n", path)
		case err != nil:
			return study.Errorf("%s: %w", path, err)
		}
	}
	l, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	defer l.Close()
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "http://%s/\n", l.Addr()); err != nil {
		return err
	}
	s := page.Server{Document: page.New(filepath.Base(files[0]), "", ""), Files: files}
	if err := s.Serve(cmd.Context(), l); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func checkRunFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	line, err := bufio.NewReaderSize(f, 1<<20).ReadSlice('\n')
	if len(line) == 0 || err != nil && json.Valid(line) {
		return nil // it is about to be written
	}
	var h struct {
		Sweep      bool            `json:"sweep"`
		MonteCarlo json.RawMessage `json:"montecarlo"`
		Shard      json.RawMessage `json:"shard"`
	}
	if json.Unmarshal(line, &h) != nil || !h.Sweep && cmp.Or(len(h.MonteCarlo), len(h.Shard)) == 0 {
		return study.Errorf("it does not begin with the header of a run, expected a file of surepipe sweep or " +
			"montecarlo --jsonl")
	}
	return nil
}

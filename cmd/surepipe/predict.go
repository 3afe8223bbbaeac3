package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"surepipe"
	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/internal/dataio"
	"surepipe/internal/digits"
	"surepipe/internal/fit"
	"surepipe/internal/stored"
	"surepipe/study"
)

func newPredict() *cobra.Command {
	var p predictFlags
	cmd := &cobra.Command{
		Use:     "predict",
		Short:   "Predict new rows, or missing entries, from a saved fit",
		Long:    helpText("predict"),
		Example: helpText("predict.examples"),
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runPredict(cmd, &p) },
	}
	cli.Bind(cmd,
		cli.Flag{Name: "fit", To: &p.fit, Usage: "the `file` of the fit (.npz)", Role: cli.Reads,
			Extensions: []string{"npz"}},
		cli.Flag{Name: "data", To: &p.data, Usage: "the `file` with the new rows, or the entries", Role: cli.Reads,
			Extensions: arrays},
		cli.Flag{Name: "na", To: &p.na, Usage: naFlag + " (default: those of the fit)"},
		cli.Flag{Name: "out", To: &p.out, Usage: "write the predictions to this .csv `file`, and not to standard " +
			"output",
			Role: cli.Writes, Extensions: []string{"csv"}},
		cli.Flag{Name: "json", To: &p.asJSON, Usage: "print one JSON object"})
	return cmd
}

type predictFlags struct {
	fit, data, out string
	na             []string
	asJSON         bool
}

func (p *predictFlags) check(cmd *cobra.Command) error {
	if p.fit == "" {
		return study.Errorf("--fit is missing, expected a file that run --out or sweep --out wrote")
	}
	if cmd.Flags().Changed("na") && !dataio.IsTable(p.data) {
		return study.Errorf("--na is about the cells of a table (.csv, .tsv), found --data %q", p.data)
	}
	if p.out == "" {
		return nil
	}
	if ext := strings.ToLower(filepath.Ext(p.out)); ext != ".csv" {
		return study.Errorf("--out is %q, expected a name that ends in .csv", p.out)
	}
	return nil
}

func runPredict(cmd *cobra.Command, p *predictFlags) error {
	if err := p.check(cmd); err != nil {
		return err
	}
	m, err := readFit(cmd.Context(), p.fit)
	if err != nil {
		return study.Errorf("%s: %w", p.fit, err)
	}
	data := surepipe.File(p.data)
	if cmd.Flags().Changed("na") {
		data = data.Missing(p.na...)
	}
	ctx := cmd.Context()
	r, err := m.Predict(ctx, data)
	if r != nil {
		for _, w := range r.Warnings {
			fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: %s\n", w.Text)
		}
	}
	if err != nil {
		return err
	}
	aboutPrediction(r, cmd)
	if p.out != "" {
		if err := dataio.WriteFile(p.out, func(w io.Writer) error { return r.WriteCSV(ctx, w) }); err != nil {
			return err
		}
	} else if !p.asJSON {
		return r.WriteCSV(ctx, cmd.OutOrStdout())
	}
	if p.asJSON {
		return r.WriteJSON(ctx, cmd.OutOrStdout())
	}
	return nil
}

func readFit(ctx context.Context, path string) (*surepipe.Model, error) {
	switch info, err := os.Stat(path); {
	case err != nil:
		return nil, stored.Bare(err)
	case !info.Mode().IsRegular():
		return nil, errors.New("is not a regular file, expected a numpy .npz file")
	}
	file, err := dataio.OpenFile(ctx, path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return surepipe.ReadFit(file)
}

func aboutPrediction(p *surepipe.Prediction, cmd *cobra.Command) {
	units := ""
	if p.Fit.Standardize && p.Predicts == fit.Entries {
		units = ", in units of the columns' standard deviations"
	}
	if p.MeanSquaredError != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: the mean squared error is %.6g, over %d rows with a response%s\n",
			*p.MeanSquaredError, p.RowsWithResponse, units)
	}
	if p.MeanLoss != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: the mean %s loss is %.6g, over %d rows with a response\n",
			p.Fit.Loss, *p.MeanLoss, p.RowsWithResponse)
	}
	if p.Fit.Loss != "" && p.Fit.ALO != nil && p.Fit.ALOStdErr != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: by the fit's own data (leave-one-out) the mean %s loss of one "+
			"prediction is %s\n", p.Fit.Loss, digits.PlusMinus(*p.Fit.ALO, *p.Fit.ALOStdErr))
	}
	if p.Fit.Loss == "" && p.Fit.ALO != nil && p.Fit.ALOStdErr != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: by the fit's own data (leave-one-out) the mean squared error "+
			"of one prediction is %s%s\n", digits.PlusMinus(*p.Fit.ALO, *p.Fit.ALOStdErr), units)
	} else if p.Fit.GCV != nil && p.Fit.GCVStdErr != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: by the fit's own data (GCV) the mean squared error of one "+
			"prediction is %s%s\n", digits.PlusMinus(*p.Fit.GCV, *p.Fit.GCVStdErr), units)
	}
}

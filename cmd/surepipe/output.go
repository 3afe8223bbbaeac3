package main

import (
	"cmp"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"surepipe"
	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/internal/dataio"
	"surepipe/internal/lists"
	"surepipe/study"
	"surepipe/study/draw"
)

type coefficientFlags struct {
	print bool
	csv   string
}

func (c *coefficientFlags) register(cmd *cobra.Command, which string) {
	cli.Bind(cmd, cli.Flag{Name: "coefficients", To: &c.print,
		Brief: "regressions: also print the coefficients by name, with errors",
		Usage: "regressions: also print the " +
			"coefficients" + which +
			" by name, with debiased estimates of those that are not 0 where these are defined; with --json, as " +
			"coefficients"},
		cli.Flag{Name: "coefficients-csv", To: &c.csv, Brief: "regressions: write the coefficients to this .csv file",
			Usage: "regressions: write the coefficients" + which +
				" to this .csv `file`", Role: cli.Writes, Extensions: []string{"csv"}})
}

func (c *coefficientFlags) wanted() bool { return c.print || c.csv != "" }

// outputFlags are the files of an estimate: the fit, and a figure of it.
type outputFlags struct {
	out     string
	picture draw.Picture
}

func (o *outputFlags) registerOut(cmd *cobra.Command, usage string) {
	cli.Bind(cmd, cli.Flag{Name: "out", To: &o.out, Usage: usage, Role: cli.Writes,
		Extensions: extensions(dataio.Written())})
}

func (o *outputFlags) registerPicture(cmd *cobra.Command) {
	g := &o.picture
	g.Frame = draw.NoFrame
	cli.Bind(cmd,
		cli.Flag{Name: "picture", To: &g.Path, Brief: "draw y, the estimate and the residual: .png, .svg, .pdf",
			Usage: "draw y, the estimate, the residual and, where mu or --truth " +
				"is given, the truth and the error, as images or over the places of a sequence, to this `file`: " +
				figureFormats(), Role: cli.Writes, Extensions: draw.Formats()},
		cli.Flag{Name: "frame", To: &g.Frame, Default: "-1", Usage: "--picture: the image of a series, counted from " +
			"0 (default: the one in the middle)"},
		cli.Flag{Name: "truth", To: &g.Truth, Brief: "the true signal, where that is not mu: FILE or FILE:NAME",
			Usage: "the true signal, of the shape of --out, where that is not mu: " +
				"an image that was blurred or scanned, a `file` or FILE:NAME. The output then has signal_loss, its " +
				"squared error, and --picture shows it", Role: cli.Reads})
}

func (o *outputFlags) check(cmd *cobra.Command, shard string) error {
	frame := cmd.Flags().Changed("frame")
	switch g := &o.picture; {
	case frame && g.Path == "":
		return study.Errorf("--frame is for --picture, which is missing")
	case frame && g.Frame < 0:
		return study.Errorf("--frame is %d, expected 0 or more", g.Frame)
	case g.Wanted() && shard != "":
		return study.Errorf("--picture and --truth are for whole runs, and --shard computes a part of one")
	}
	if err := draw.CheckPath(o.picture.Path); err != nil {
		return study.Errorf("--picture: %w", err)
	}
	if o.out != "" {
		if _, err := outFormat(o.out); err != nil {
			return err
		}
	}
	return nil
}

func (e *estimation) checkProblem(o *outputFlags, of *surepipe.Estimator) error {
	job, _ := of.Below()
	p := job.Problem
	if e.coefficients.wanted() && !p.Rows() {
		return study.Errorf("--coefficients is for regressions, whose operator is a matrix of the data, found "+
			"%s", p.Name)
	}
	if o.out != "" {
		format, err := outFormat(o.out)
		if err != nil {
			return err
		}
		name, shape, isComplex := "mu_hat", p.MuShape, p.MuComplex
		if p.Signal != nil {
			name, shape, isComplex = "the signal", p.SignalShape, p.SignalComplex
		}
		shape = study.ShapeOut(p, shape)
		if err := draw.CheckShape(format, o.out, name, shape, p.Frames != nil, isComplex); err != nil {
			return err
		}
	}
	return o.picture.Check(p)
}

// write writes the files that were asked for: the fit, the coefficients, further ones, and the picture. The error
// is the first; the files after it are written all the same.
func (e *estimation) write(o *outputFlags, fit *surepipe.Fit, further ...func() error) (c surepipe.Coefficients,
	unwritten, err error) {
	if e.coefficients.wanted() {
		if c, err = fit.Coefficients(e.cmd.Context()); err != nil {
			return c, nil, err
		}
	}
	for _, f := range further {
		unwritten = cmp.Or(unwritten, f())
	}
	if o.out != "" {
		unwritten = cmp.Or(unwritten, writeFit(o.out, fit))
	}
	if e.coefficients.csv != "" {
		unwritten = cmp.Or(unwritten, c.WriteCSV(e.coefficients.csv))
	}
	if o.picture.Wanted() {
		_, data := fit.Estimator().Below()
		unwritten = cmp.Or(unwritten, fit.Draw(&o.picture, cli.Origin(e.cmd, study.DataHash(data.Data))))
	}
	return c, unwritten, nil
}

func writeFit(path string, fit *surepipe.Fit) error {
	return dataio.WriteFile(path, func(w io.Writer) (err error) {
		if format, _ := dataio.FormatFor(path); format.WriteArrays != nil {
			_, err = fit.WriteTo(w)
		} else {
			_, err = fit.WriteImage(w, path)
		}
		return err
	})
}

func outFormat(path string) (dataio.Format, error) {
	f, ok := dataio.FormatFor(path)
	if !ok {
		return f, study.Errorf("--out is %q, expected a name that ends in "+
			"%s", path, dataio.Extensions(dataio.Written()))
	}
	return f, nil
}

// extensions are those of some formats, as shells complete them.
func extensions(of []dataio.Format) []string {
	var names []string
	for _, f := range of {
		for _, e := range f.Extensions {
			names = append(names, e[1:])
		}
	}
	return names
}

func figureFormats() string {
	all := lists.Map(draw.Formats(), func(f string) string { return "." + f })
	return strings.Join(all, ", ")
}

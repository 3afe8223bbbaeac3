package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"surepipe"
	"surepipe/cmd/surepipe/internal/bar"
	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/internal/digits"
	"surepipe/internal/lists"
	"surepipe/series"
	"surepipe/study"
	"surepipe/study/denoise"
)

func newDenoise() *cobra.Command {
	var r surepipe.Series
	var asJSON bool
	r.Shrinkage, r.Average = series.Shrinkages[0].Name, series.Gaussian
	cmd := &cobra.Command{
		Use:     "denoise FILE",
		Short:   "Denoise a series of images by local low rank: MRI, calcium imaging, hyperspectral cubes",
		Long:    helpText("denoise") + "\n\n" + shrinkages() + helpText("exit"),
		Example: helpText("denoise.examples"),
		Args:    cobra.ArbitraryArgs, // counted after what flags name is checked
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return study.Errorf("found %d arguments, expected one: the file of the series", len(args))
			}
			return runDenoise(cmd, surepipe.File(args[0]), r, asJSON)
		},
	}
	file := func(name string, to *string, usage string, role cli.Role) cli.Flag {
		return cli.Flag{Name: name, To: to, Usage: usage, Role: role,
			Extensions: []string{"nii", "gz", "mif", "npy", "tif", "h5", "mat"}}
	}
	cli.Bind(cmd,
		file("out", &r.Out, "write the estimate to this `file`, of the kind of FILE", cli.Writes),
		file("df", &r.DF, "write the degrees of freedom at each voxel to this `file`", cli.Writes),
		file("risk", &r.Risk, "write SURE at each voxel to this `file`", cli.Writes),
		file("rank", &r.Rank, "write the rank at each voxel to this `file`", cli.Writes),
		file("noise", &r.Noise, "write sigma at each voxel to this `file`", cli.Writes),
		file("noise-error", &r.NoiseError, "write the standard error of sigma to this `file`", cli.Writes),
		file("residual", &r.Residual, "write what was removed to this `file`", cli.Writes),
		file("removed", &r.Removed, "write the residual's correlation with neighbours to this `file`", cli.Writes),
		file("out-second", &r.OutSecond, "write the imaginary part or phase of the estimate to this "+
			"`file`", cli.Writes),
		file("imaginary", &r.Imaginary, "the `file` of the imaginary part; FILE is the real part", cli.Reads),
		file("phase", &r.Phase, "the `file` of the phase in radians; FILE has magnitudes", cli.Reads),
		file("mask", &r.Mask, "denoise where the map in this `file` is not 0", cli.Reads),
		cli.Flag{Name: "sigma", To: &r.Sigma, Usage: "the standard deviation of the noise: a `number`, or the file " +
			"of a map " +
			"(default: estimated)"},
		file("noise-scan", &r.NoiseScan, "estimate sigma from this `file`, a scan of noise alone", cli.Reads),
		cli.Flag{Name: "noise-volumes", To: &r.NoiseVolumes, Usage: "estimate sigma from these `volumes` of noise " +
			"alone, as 60-63,70, counted from 0; outputs have the others"},
		file("keep", &r.Keep, "keep what the columns of this `file` explain, a row a volume: a design", cli.Reads),
		cli.Flag{Name: "series-last", To: &r.SeriesLast, Usage: "the last axis of an array is the series, not the " +
			"first"},
		cli.Flag{Name: "patch", To: &r.Patch, Usage: "side of the patches in `voxels`, or three as 5x5x3 (default: " +
			"the cube of least SURE on a part of the series)"},
		cli.Flag{Name: "stride", To: &r.Stride, Usage: "distance of the patches in `voxels`, or three as 2x2x1 " +
			"(default 2, 1 along sides of less than 4)"},
		cli.Flag{Name: "shrinkage", To: &r.Shrinkage, Usage: "what becomes of singular values: " +
			"" + strings.Join(names(), ", "),
			Values: names()},
		cli.Flag{Name: "threshold", To: (*string)(&r.Threshold), Usage: "series-sure: at one multiple of the largest " +
			"value of noise, of least SURE; edge: at that value; sure: where SURE of a patch is least (default " +
			"series-sure, of hard edge)",
			Values: []string{string(series.ByEdge), string(series.BySURE), string(series.BySeriesSURE)}},
		cli.Flag{Name: "average", To: (*string)(&r.Average), Usage: "weights of overlapping patches: gaussian, about " +
			"their middle; uniform, rank (1/(1 + rank)), risk (1/SURE)", Values: []string{string(series.Gaussian),
			string(series.Uniform), string(series.InverseRank), string(series.InverseRisk)}},
		cli.Flag{Name: "rician", To: &r.Rician, Usage: "correct the mean of magnitudes for their noise (Koay's " +
			"inversion)"},
		cli.Flag{Name: "coils", To: &r.Coils, Usage: "magnitudes are the root of the sum of squares of `N` coils " +
			"with noise of one sigma (default 1)"},
		cli.Flag{Name: "json", To: &asJSON, Usage: "print one JSON object"})
	return cmd
}

func names() []string {
	return lists.Map(series.Shrinkages, func(s series.Shrinkage) string { return s.Name })
}

func shrinkages() string {
	var b strings.Builder
	b.WriteString("--shrinkage:\n\n")
	for _, s := range series.Shrinkages {
		fmt.Fprintf(&b, "  %-9s %s\n", s.Name, s.Help)
	}
	b.WriteString("\n")
	return b.String()
}

func runDenoise(cmd *cobra.Command, data surepipe.Data, r surepipe.Series, asJSON bool) error {
	line := bar.New(cmd)
	defer line.Close()
	result, err := data.Denoise(line.Preparing(cmd.Context()), r)
	if err != nil {
		return err
	}
	line.Close()
	for _, w := range result.Warnings {
		fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: %s\n", w.Text)
	}
	if asJSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(result)
	}
	return printDenoised(result, cmd.OutOrStdout())
}

func printDenoised(r *denoise.Result, out io.Writer) error {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-13s%s\n", name, fmt.Sprintf(format, args...))
	}
	kind := ""
	if r.Complex {
		kind = ", complex"
	}
	row("series", "%d volumes of %d x %d x %d voxels%s; %d voxels "+
		"denoised", r.Volumes, r.Image[0], r.Image[1], r.Image[2],
		kind, r.Voxels)
	row("patches", "%d of %d x %d x %d, mean rank %.3g", r.Patches, r.Patch[0], r.Patch[1], r.Patch[2], r.Rank)
	sigma := ""
	if r.Sigma.StdErr != nil {
		sigma = " ± " + digits.Error(*r.Sigma.StdErr) + " at a voxel"
	}
	row("sigma", "%.4g (%.4g to %.4g)%s, %s", r.Sigma.Mean, r.Sigma.Min, r.Sigma.Max, sigma, r.Sigma.From)
	row("df", "%.6g, %.3g%% of the values", r.DF, 100*r.DFShare)
	row("SURE", "%s; %.4g per value", digits.PlusMinus(r.SURE, r.SUREErr), r.PerValue)
	if r.Gain != nil {
		row("gain", "the squared error is %.3g times smaller than that of the data", *r.Gain)
	}
	row("residual", "correlation with neighbours %.3f ± %.3f", r.Removed, r.RemovedErr)
	row("time", "%.3g s", r.Seconds)
	_, err := io.WriteString(out, b.String())
	return err
}

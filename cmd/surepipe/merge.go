package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"surepipe/internal/figure"
	"surepipe/study"
)

const mergeHelp = `Merges the files of all shards of a run into the file that one machine would have written,
equal to it in every byte, times aside, and prints the summary of the run.

A run is divided among tasks that need not know of each other:

    surepipe montecarlo ... --samples 4000 --jsonl mc.jsonl --shard 3/8

computes samples 1500 to 1999, to mc.shard-0003-of-0008.jsonl. Units are

  montecarlo  the samples, and after them the repetitions of --seeds
  sweep       chains of warm starts, of up to --chain points of the grid. merge then refines the
              minimizer as one machine would, for which it reads the data again, from where the
              shards had them or from --data and the like; or, with --no-refine, takes that of the
              grid. --csv, --plot and --out are those of surepipe sweep
  run         the probes of --trace hutchinson, with a number of --queries, or exact. Every shard
              solves the problem for itself, and so does merge, which reads the data again; the
              merged file is the line of surepipe run --json. Where leave-one-out comes from the
              probes the line of a probe holds d numbers, 11 bytes each

Shard i of n has the units from i N/n to (i+1) N/n. A shard that was killed goes on from its
file when the same command is run again; a complete one has nothing left to do. It exits with
0 as soon as its part is complete, also where results did not converge: an engine that tries
again would compute the same.

--shard auto takes i and n from the engine that started the task: array jobs of Slurm, AWS
Batch, Cloud Run, Google Batch, Grid Engine and LSF, processes of Open MPI, and steps of
Slurm. --shard auto/n takes i alone, as the engine's number of the task from 0 to n-1: for
Indexed Jobs of Kubernetes and arrays of PBS, which do not say n, and to compute some of n
shards again.

All files must be of one run: the same settings, data and number of shards, and the same
version, BLAS kernels and device, because results agree to the last bit only then; --mixed
takes them all the same. A file that is given twice, or two files of one shard, must agree.

If shards are missing, or incomplete because their task was killed, nothing is written, a
line of JSON lists them, {"missing": [2, 5, 6], "array": "2,5-6"}, and the exit status is 4:
run the array again with --array=2,5-6, and merge again. In a job that follows an array, use
--dependency=afterany: a task that was killed and requeued counts as failed for afterok.`

func newMerge() *cobra.Command {
	var f mergeFlags
	cmd := &cobra.Command{
		Use:   "merge FILE...",
		Short: "Merge the files of a run's shards",
		Long:  mergeHelp,
		Example: `  surepipe merge mc.shard-*.jsonl --jsonl mc.jsonl --plot mc.png
  surepipe merge sweep.shard-*.jsonl --jsonl sweep.jsonl --csv sweep.csv --out best.npz
  sbatch --array=0-7 shard.sh && sbatch --dependency=afterany:$JOB merge.sh`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.merge(cmd, args) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.jsonl, "jsonl", "", "write the merged lines to this `file`, which must not exist")
	flags.BoolVar(&f.mixed, "mixed", false, "also merge shards of different versions, BLAS kernels or devices, "+
		"which agree up to rounding")
	flags.StringVar(&f.figures.plot, "plot", "",
		"draw the figure of surepipe montecarlo or sweep --plot to this .png, .svg or .pdf `file`")
	flags.StringVar(&f.figures.running, "running", "",
		"montecarlo: draw the running mean of SURE - loss, or of SURE, to this `file`")
	flags.StringVar(&f.csv, "csv", "", "sweep: write the points to this .csv `file`")
	flags.StringVar(&f.out, "out", "", "sweep: write the fit at the minimizer to this `file`; run: the fit, in "+
		"the formats of surepipe run --out")
	flags.BoolVar(&f.noRefine, "no-refine", false, "sweep: the minimizer is that of the grid, for which the data "+
		"are not needed; surepipe sweep --resume goes on from there")
	f.moved = map[string]*string{}
	for _, name := range fileFlags {
		f.moved[name] = flags.String(name, "",
			"sweep, run: the `file` of the shards' --"+name+", where its path is another one now")
		markFile(cmd, reads, name)
	}
	for name, kinds := range map[string][]string{"jsonl": {"jsonl"}, "csv": {"csv"},
		"out": {"npz", "npy", "csv", "png"}, "plot": figure.Formats(), "running": figure.Formats()} {
		markFile(cmd, writes, name, kinds...)
	}
	return cmd
}

type mergeFlags struct {
	jsonl    string
	mixed    bool
	figures  monteCarloFigures
	csv, out string
	noRefine bool
	moved    map[string]*string // by the name of a flag for a file
	files    map[string]string  // those of moved that are given
}

func (f *mergeFlags) check(cmd *cobra.Command, files []string) error {
	switch {
	case len(files) == 0:
		return usagef("surepipe merge takes the files of the shards, found none")
	case f.jsonl == "":
		return usagef("--jsonl is missing, expected the file for the merged lines")
	}
	if _, err := os.Stat(f.jsonl); err == nil {
		return usagef("--jsonl is %q, which exists: remove it, or choose another name", f.jsonl)
	}
	f.files = map[string]string{}
	for name, path := range f.moved {
		if cmd.Flags().Changed(name) {
			f.files[name] = *path
		}
	}
	if f.out != "" && f.noRefine {
		return usagef("--out is the fit, which --no-refine does not compute: expected one of them")
	}
	return f.figures.check()
}

// checkRun rejects flags for which the run of the shards has no use.
func (f *mergeFlags) checkRun(cmd *cobra.Command, of study.ShardHeader) (err error) {
	used := append([]string{"jsonl", "mixed", "help"}, mergerOf(of.Shard.Unit).flags...)
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if !slices.Contains(used, flag.Name) && err == nil {
			err = usagef("--%s has no meaning for these shards, whose unit is a %s: expected some of --%s",
				flag.Name, of.Shard.Unit, strings.Join(slices.Concat(used[:2], used[3:]), ", --"))
		}
	})
	return err
}

// errIncomplete is returned after the missing shards have been printed.
var errIncomplete = errors.New("shards are missing")

// merge merges the files of a run's shards.
func (f *mergeFlags) merge(cmd *cobra.Command, files []string) error {
	if err := f.check(cmd, files); err != nil {
		return err
	}
	set, err := study.ReadShards(files, f.mixed)
	if err != nil {
		return err
	}
	if err := f.checkRun(cmd, set.Of); err != nil {
		return err
	}
	var data []namedFile
	for _, name := range slices.Sorted(maps.Keys(set.Of.Files)) {
		data = append(data, namedFile{what: "the file of the shards' --" + name, path: set.Of.Files[name]})
	}
	if err := checkOverwrite(cmd, data); err != nil {
		return err
	}
	if missing := set.Missing(); len(missing) > 0 {
		text := study.Ranges(missing)
		if err := study.WriteLine(cmd.OutOrStdout(), map[string]any{"missing": missing, "array": text}); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: %d of %d shards are missing or incomplete: compute them with "+
			"--array=%s, and merge again\n", len(missing), set.Of.Shard.Count, text)
		return errIncomplete
	}
	return mergerOf(set.Of.Shard.Unit).merge(f, cmd, set)
}

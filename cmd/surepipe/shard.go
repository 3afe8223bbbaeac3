package main

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"surepipe"
	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/internal/shard"
	"surepipe/study"
)

func (e *estimation) parseShard(value string) (s surepipe.Shard, err error) {
	if value == "" {
		return s, nil
	}
	s, source, err := shard.Parse(value, os.Getenv)
	if err != nil {
		return s, study.Errorf("--shard is %w", err)
	}
	if source != "" {
		e.say("%s says that this is shard %s", source, s)
	}
	return s, nil
}

// completed says that n of total things of a shard are in its file, or after an interrupt how to go on.
func (e *estimation) completed(s surepipe.Shard, path string, err error, n, total int, things string) error {
	switch {
	case err == nil:
		e.say("shard %s, %d of %d %s, is complete: %s", s, n, total, things, path)
	case e.cmd.Context().Err() != nil:
		e.say("what was done is in %s: the same command continues from there", path)
	}
	return err
}

// fileFlags are the flags that say where the data are. They may differ from shard to shard.
var fileFlags = []string{"data", "X", "D", "y", "mu", "spec"}

// givenFlags are the flags of a command that were given, for merge: those that determine the result,
// and those that say where the data are.
func givenFlags(cmd *cobra.Command) (flags map[string][]string, files map[string]string) {
	flags, files = map[string][]string{}, map[string]string{}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		switch list, many := flag.Value.(pflag.SliceValue); {
		case cli.WithoutEffect(flag), flag.Name == "device", flag.Name == "shard": // these are in the header
		case slices.Contains(fileFlags, flag.Name):
			files[flag.Name] = flag.Value.String()
		case many:
			flags[flag.Name] = list.GetSlice()
		default:
			flags[flag.Name] = []string{flag.Value.String()}
		}
	})
	return flags, files
}

// setFlags gives a command the flags of a shard, with the files where they are now, which must be
// there, and the command line that they are.
func setFlags(h study.ShardHeader, cmd *cobra.Command, files map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(h.Flags)) {
		if err := setFlag(cmd, name, h.Flags[name]); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := setFlag(cmd, name, []string{files[name]}); err != nil {
			return err
		}
	}
	if err := setFlag(cmd, "device", []string{h.Machine.Device}); err != nil {
		return err
	}
	(&cobra.Command{Use: "surepipe"}).AddCommand(cmd)
	cli.KeepCommandLine(cmd)
	return nil
}

func setFlag(cmd *cobra.Command, name string, values []string) error {
	flag := cmd.Flags().Lookup(name)
	if flag == nil {
		return fmt.Errorf("its first line has the flag --%s, which surepipe %s does not have", name, cmd.Name())
	}
	if list, many := flag.Value.(pflag.SliceValue); many {
		flag.Changed = true
		return list.Replace(values)
	}
	if len(values) != 1 {
		return fmt.Errorf("its first line has %d values of --%s, expected 1", len(values), name)
	}
	if err := cmd.Flags().Set(name, values[0]); err != nil {
		return fmt.Errorf("its first line has --%s %q: %w", name, values[0], err)
	}
	return nil
}

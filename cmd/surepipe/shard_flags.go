package main

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"surepipe/internal/shard"
	"surepipe/study"
)

// parseShard reads the value of --shard.
func parseShard(cmd *cobra.Command, text string) (shard.Shard, error) {
	s, source, err := shard.Parse(text, os.Getenv)
	if err != nil {
		return s, usagef("--shard is %w", err)
	}
	if source != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: %s says that this is shard %s\n", source, s)
	}
	return s, nil
}

// fileFlags are the flags that say where the data are. They may differ from shard to shard.
var fileFlags = []string{"data", "X", "D", "y", "mu", "spec"}

// givenFlags are the flags of a command that were given, for merge: those that determine the result,
// and those that say where the data are.
func givenFlags(cmd *cobra.Command) (flags map[string][]string, files map[string]string) {
	how := []string{"parallel", "probe-batch", "device", "verbose", "jsonl", "resume", "shard", "json"}
	flags, files = map[string][]string{}, map[string]string{}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		switch list, many := flag.Value.(pflag.SliceValue); {
		case slices.Contains(how, flag.Name):
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
// there.
func setFlags(h study.ShardHeader, cmd *cobra.Command, moved map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(h.Files)) {
		if _, given := moved[name]; given {
			continue
		}
		if _, err := os.Stat(h.Files[name]); err != nil {
			return fmt.Errorf("the shards had the data from --%s %s, which is not there: give --%s", name,
				h.Files[name], name)
		}
	}
	files := map[string]string{}
	maps.Copy(files, h.Files)
	maps.Copy(files, moved)
	return takeFlags(h, cmd, files)
}

// takeFlags gives a command the flags of a shard, with these files, and the command line that they are.
func takeFlags(h study.ShardHeader, cmd *cobra.Command, files map[string]string) error {
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
	keepCommandLine(cmd)
	return nil
}

// setFlag sets a flag to what a shard's first line says.
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

package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/study"
)

// commandNames are the names of the subcommands of cmd that its help lists.
func commandNames(cmd *cobra.Command) (names []string) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() || c.Name() == "help" {
			names = append(names, c.Name())
		}
	}
	return names
}

func unknownCommand(cmd *cobra.Command, name string) error {
	return study.Errorf("unknown command %q%s; see %s --help", name, ndarray.Meant(name, commandNames(cmd)),
		cmd.CommandPath())
}

// CheckCommand rejects an unknown command before its flags are read: they are not root's.
func CheckCommand(root *cobra.Command, args []string) error {
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		return nil // a shell that completes a line
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	found, rest, err := root.Find(args)
	if err == nil {
		return nil
	}
	for _, a := range rest {
		if !strings.HasPrefix(a, "-") {
			return unknownCommand(found, a)
		}
	}
	return study.Bad(err)
}

// NoArgs rejects arguments that are not flags.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if names := commandNames(cmd); len(names) > 0 {
		return unknownCommand(cmd, args[0])
	}
	return study.Errorf("%s takes flags only, found %q", cmd.CommandPath(), args[0])
}

func NewHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Print the help of a command",
		Long:  "Prints the help of a command, as its --help does.",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			at, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return commandNames(at), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			at := cmd.Root()
			for _, name := range args {
				i := slices.IndexFunc(at.Commands(),
					func(c *cobra.Command) bool { return c.Name() == name || c.HasAlias(name) })
				if i < 0 {
					return unknownCommand(at, name)
				}
				at = at.Commands()[i]
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		},
	}
}

// FlagError words the errors of reading flags: which flag, what was found and what was expected.
func FlagError(cmd *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
	)
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		return study.Errorf("unknown flag --%s%s; see %s --help", unknown.GetSpecifiedName(),
			elsewhere(cmd, unknown.GetSpecifiedName()), cmd.CommandPath())
	case errors.As(err, &missing):
		return study.Errorf("--%s has no value, expected %s; see %s --help", missing.GetFlag().Name,
			expectation(missing.GetFlag()), cmd.CommandPath())
	case errors.As(err, &invalid):
		flag := invalid.GetFlag()
		if kind := expectation(flag); flag.Value.Type() != kind {
			return study.Errorf("--%s is %q, expected %s", flag.Name, invalid.GetValue(), kind)
		}
		return study.Errorf("--%s is %q: %w", flag.Name, invalid.GetValue(), invalid.Unwrap())
	}
	return study.Errorf("%w; see %s --help", err, cmd.CommandPath())
}

// elsewhere says which flags of cmd, or else which commands, an unknown flag may be meant for.
func elsewhere(cmd *cobra.Command, name string) string {
	var own []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			own = append(own, f.Name)
		}
	})
	if nearest := ndarray.Nearest(name, own); nearest != "" {
		return fmt.Sprintf(" (did you mean --%s?)", nearest)
	}
	var others []string
	for _, c := range cmd.Root().Commands() {
		if f := c.Flags().Lookup(name); f != nil && !f.Hidden && c != cmd {
			others = append(others, c.CommandPath())
		}
	}
	if len(others) == 0 {
		return ""
	}
	return "; it is a flag of " + strings.Join(others, ", ")
}

// plain is a flag's number that is read in decimal digits alone: package pflag takes 0x10, 010 and 1_000
// too, and the second for 8.
type plain struct{ pflag.Value }

func (p plain) Set(text string) error {
	switch p.Type() {
	case "float64":
		if _, ok := dataio.ParseNumber(text); !ok {
			return errors.New("expected a number")
		}
		return p.Value.Set(text)
	case "uint64":
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return err
		}
		return p.Value.Set(strconv.FormatUint(n, 10))
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	return p.Value.Set(strconv.Itoa(n))
}

// PlainNumbers makes all numbers among the flags of a command, and of those below it, plain ones.
func PlainNumbers(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains([]string{"float64", "int", "uint64"}, f.Value.Type()) {
			f.Value = plain{f.Value}
		}
	})
	for _, c := range cmd.Commands() {
		PlainNumbers(c)
	}
}

// CheckEmpty rejects a text that is given and empty, as by a variable of a shell that is not set.
func CheckEmpty(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && f.Value.Type() == "string" && f.Value.String() == "" {
			err = study.Errorf("--%s is empty", f.Name)
		}
	})
	return err
}

// expectation describes the values of a flag; it is the type's name where that says all.
func expectation(f *pflag.Flag) string {
	if _, is := f.Value.(*Auto); is {
		return "true, false or auto"
	}
	switch kind := f.Value.Type(); kind {
	case "bool":
		return "true or false"
	case "int":
		return "a whole number"
	case "uint64":
		return "a whole number, 0 or more"
	case "float64":
		return "a number"
	case "string":
		return "a value"
	default:
		return kind
	}
}

// shared marks the flags that sweep and montecarlo have from run.
const shared = "surepipe_shared"

// ShareFlags marks all flags registered so far as run's.
func ShareFlags(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) { cobra.CheckErr(flags.SetAnnotation(f.Name, shared, []string{"run"})) })
}

// DescribeFlags gives a shared flag a meaning of its own.
func DescribeFlags(flags *pflag.FlagSet, usage map[string]string) {
	for name, text := range usage {
		f := flags.Lookup(name)
		f.Usage = text
		delete(f.Annotations, shared)
		delete(f.Annotations, brief)
	}
}

package cli

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Flag is a row of a command's table of flags.
type Flag struct {
	Name string
	// To is where the value goes; what is there is the default. It is a pointer to a text, a number, a time, a list of
	// texts or a bool, or a [pflag.Value].
	To    any
	Usage string
	// Brief is the usage in a line, where the first clauses of the usage are none.
	Brief string
	// Short is a letter for the same, and Default, if not "", what help prints in place of the default.
	Short, Default string
	Values         []string
	// Role is that of a file or a folder, with the extensions that shells complete.
	Role       Role
	Extensions []string
}

// brief marks flags with a usage in a line.
const brief = "surepipe_brief"

// Bind adds flags to a command, in the order in which help lists them.
func Bind(cmd *cobra.Command, all ...Flag) {
	Define(cmd.Flags(), all...)
	for _, f := range all {
		if f.Values != nil {
			cobra.CheckErr(cmd.RegisterFlagCompletionFunc(f.Name,
				cobra.FixedCompletions(f.Values, cobra.ShellCompDirectiveNoFileComp)))
		}
		if f.Role != "" {
			markFile(cmd, f.Role, f.Name, f.Extensions...)
		}
	}
}

// Auto is the value of a flag that is on, off, or auto.
type Auto struct{ On, Auto *bool }

// Set sets On to what a text says; auto, which the flag need not have, sets Auto.
func (a *Auto) Set(text string) (err error) {
	if *a.Auto = text == "auto"; *a.Auto {
		*a.On = false
		return nil
	}
	if *a.On, err = strconv.ParseBool(text); err != nil {
		return errors.New("expected true, false or auto")
	}
	return nil
}

func (a *Auto) String() string {
	switch {
	case a.On == nil || *a.Auto:
		return "auto"
	default:
		return strconv.FormatBool(*a.On)
	}
}

// Type is the name that the help gives to the value.
func (a *Auto) Type() string { return "bool" }

func Define(flags *pflag.FlagSet, all ...Flag) {
	flags.SortFlags = false
	for _, f := range all {
		switch to := f.To.(type) {
		case *string:
			flags.StringVarP(to, f.Name, f.Short, *to, f.Usage)
		case *bool:
			flags.BoolVarP(to, f.Name, f.Short, *to, f.Usage)
		case *int:
			flags.IntVarP(to, f.Name, f.Short, *to, f.Usage)
		case *uint64:
			flags.Uint64VarP(to, f.Name, f.Short, *to, f.Usage)
		case *float64:
			flags.Float64VarP(to, f.Name, f.Short, *to, f.Usage)
		case *time.Duration:
			flags.DurationVarP(to, f.Name, f.Short, *to, f.Usage)
		case *[]string:
			flags.StringSliceVarP(to, f.Name, f.Short, *to, f.Usage)
		case pflag.Value:
			flags.VarP(to, f.Name, f.Short, f.Usage)
			if _, is := to.(*Auto); is {
				flags.Lookup(f.Name).NoOptDefVal = "true"
			}
		default:
			panic(fmt.Sprintf("surepipe: --%s goes to a %T", f.Name, f.To))
		}
		if f.Brief != "" {
			cobra.CheckErr(flags.SetAnnotation(f.Name, brief, []string{f.Brief}))
		}
		if f.Default != "" {
			flags.Lookup(f.Name).DefValue = f.Default
		}
	}
}

package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const columns = 100

// Topic is what several commands have in common: a text, and flags that it explains. "surepipe help NAME" prints both;
// the help of a command names the topic and its flags alone.
type Topic struct {
	Name, Short string
	Text        func() string
	Flags       []string
}

func (t Topic) of(flags *pflag.FlagSet) *pflag.FlagSet {
	return chosen(flags, func(f *pflag.Flag) bool { return slices.Contains(t.Flags, f.Name) })
}

// NewTopics are commands that only have a help. Their flags are described as the first command does that has them.
func NewTopics(topics []Topic, of ...*cobra.Command) (all []*cobra.Command) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SortFlags = false
	for _, cmd := range of {
		flags.AddFlagSet(cmd.Flags())
	}
	for _, t := range topics {
		cmd := &cobra.Command{Use: t.Name, Short: t.Short, Args: NoArgs}
		cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
			w := cmd.OutOrStdout()
			fmt.Fprintf(w, "%s\n\n", strings.TrimSpace(t.Text()))
			if own := t.of(flags); own.HasFlags() {
				fmt.Fprintf(w, "Flags:\n%s", own.FlagUsagesWrapped(columns))
			}
		})
		all = append(all, cmd)
	}
	return all
}

// chosen are the flags that are wanted, in their order.
func chosen(flags *pflag.FlagSet, wanted func(*pflag.Flag) bool) *pflag.FlagSet {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.SortFlags = false
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && wanted(f) {
			own.AddFlag(f)
		}
	})
	return own
}

// FlagsFirst gives a command a help that begins with its flags, a line each, goes on with those of the topics by
// name, and ends with its examples and a text. Its Long, which manual pages have, is everything.
func FlagsFirst(cmd *cobra.Command, topics []Topic, text string) {
	others := cmd.Name() != "run"
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		w := cmd.OutOrStdout()
		cmd.InitDefaultHelpFlag()
		of := map[string]bool{}
		for _, t := range topics {
			for _, name := range t.Flags {
				of[name] = true
			}
		}
		own := chosen(cmd.Flags(), func(f *pflag.Flag) bool {
			return !of[f.Name] && (!others || f.Annotations[shared] == nil)
		})
		fmt.Fprintf(w, "%s.\n\nUsage:\n  %s\n\nFlags:\n%s\n", cmd.Short, cmd.UseLine(), lines(own))
		fmt.Fprintf(w, "More flags, which surepipe help TOPIC describes:\n")
		for _, t := range topics {
			listed(w, t, cmd.Flags())
		}
		run := chosen(cmd.Flags(), func(f *pflag.Flag) bool { return !of[f.Name] && f.Annotations[shared] != nil })
		if others {
			fmt.Fprint(w, "\nFlags as in surepipe run:\n")
			fmt.Fprint(w, Hanging(" ", names(run), columns))
		}
		fmt.Fprintf(w, "\nExamples:\n%s\n\n%s\n", cmd.Example, strings.TrimSpace(text))
	})
}

func listed(w io.Writer, t Topic, flags *pflag.FlagSet) {
	own := t.of(flags)
	fmt.Fprint(w, Hanging(fmt.Sprintf("  %-12s", t.Name), names(own), columns))
}

// Hanging sets words behind a head, in lines of at most width characters, the others behind as much space.
func Hanging(head string, words []string, width int) string {
	var b strings.Builder
	line := head
	for _, word := range words {
		if len(line)+1+len(word) > width {
			b.WriteString(line + "\n")
			line = strings.Repeat(" ", len(head))
		}
		line += " " + word
	}
	return b.String() + line + "\n"
}

func names(flags *pflag.FlagSet) (all []string) {
	flags.VisitAll(func(f *pflag.Flag) { all = append(all, "--"+f.Name) })
	return all
}

// lines are short usages: the brief ones where there are any, else as many clauses as fit in a line.
func lines(flags *pflag.FlagSet) string {
	var heads, texts []string
	flags.VisitAll(func(f *pflag.Flag) {
		kind, usage := pflag.UnquoteUsage(f)
		head := "      --" + f.Name
		if f.Shorthand != "" {
			head = "  -" + f.Shorthand + ", --" + f.Name
		}
		if text := f.Annotations[brief]; text != nil {
			usage = text[0]
		}
		heads, texts = append(heads, strings.TrimRight(head+" "+kind, " ")), append(texts, usage)
	})
	widest := 0
	for _, h := range heads {
		widest = max(widest, len(h))
	}
	var b strings.Builder
	for i, h := range heads {
		text := strings.Fields(clause(texts[i], columns-widest-3))
		b.WriteString(Hanging(fmt.Sprintf("%-*s  ", widest, h), text, columns))
	}
	return b.String()
}

// clause is the beginning of a text, up to the end of a clause before the room ends, if there is one.
func clause(text string, room int) string {
	for _, end := range []string{"; ", ". ", " ("} {
		if len(text) > room {
			text, _, _ = strings.Cut(text, end)
		}
	}
	return text
}

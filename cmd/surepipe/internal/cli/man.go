package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"surepipe/study"
)

func NewMan() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "man",
		Short: "Write manual pages",
		Long: `Writes a manual page for each command, surepipe.1, surepipe-run.1 and so on, to a folder,
which is made if it does not exist.`,
		Example: `  surepipe man --out ~/.local/share/man/man1
  man surepipe-sweep`,
		Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return study.Errorf("--out is missing, expected a folder")
			}
			return writeManual(cmd.Root(), out)
		},
	}
	Bind(cmd, Flag{Name: "out", To: &out, Usage: "`folder` for the pages", Role: Fills})
	return cmd
}

func writeManual(cmd *cobra.Command, folder string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return study.Errorf("--out is %q: %w", folder, err)
	}
	cmd.InitDefaultHelpFlag()
	cmd.DisableAutoGenTag = true
	long := cmd.Long
	cmd.Long = indented(long)
	defer func() { cmd.Long = long }()
	path := filepath.Join(folder, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1")
	file, err := os.Create(path)
	if err != nil {
		return study.Errorf("--out is %q: %w", folder, err)
	}
	err = doc.GenMan(cmd, &doc.GenManHeader{Section: "1", Source: "surepipe " + study.Version(),
		Manual: "surepipe"}, file)
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		if err := writeManual(c, folder); err != nil {
			return err
		}
	}
	return nil
}

// indented makes each paragraph that has an indented line a block of code in Markdown.
func indented(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if strings.HasPrefix(p, " ") || strings.Contains(p, "\n ") {
			paragraphs[i] = "    " + strings.ReplaceAll(p, "\n", "\n    ")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

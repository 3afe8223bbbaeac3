package main

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"surepipe/internal/dataio"
)

// stopEvery is the number of entries between two looks at the context.
const stopEvery = 1 << 16

func (f *generateFlags) writesTable() bool { return strings.EqualFold(filepath.Ext(f.out), ".csv") }

// writeTable writes the entries of a matrix as a table of row, column and value, counted from 0. It has
// no place for mu, sigma2 and lambda: what they are is printed.
func (f *generateFlags) writeTable(cmd *cobra.Command, arrays []dataio.Array) error {
	by := map[string]dataio.Array{}
	for _, a := range arrays {
		by[a.Name] = a
	}
	y, places, cols := by["y"].Data, by["indices"].Ints, by["shape"].Ints[1]
	ctx := cmd.Context()
	err := dataio.WriteFile(f.out, func(to io.Writer) error {
		w := bufio.NewWriterSize(to, 1<<16)
		w.WriteString("row,column,value\n")
		var line []byte
		for i, c := range places {
			if i%stopEvery == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			line = append(strconv.AppendInt(line[:0], c/cols, 10), ',')
			line = append(strconv.AppendInt(line, c%cols, 10), ',')
			line = append(strconv.AppendFloat(line, y[i], 'g', -1, 64), '\n')
			if _, err := w.Write(line); err != nil {
				return err
			}
		}
		return w.Flush()
	})
	if err != nil {
		return err
	}
	f.wrote(cmd, fmt.Sprintf("surepipe run --problem matrix-completion --data %s --response value --sigma2 %s "+
		"--lambda %s",
		f.out, format(by["sigma2"].Data[0]), format(by["lambda"].Data[0])))
	return nil
}

func format(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

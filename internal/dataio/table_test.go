package dataio

import (
	"compress/gzip"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// describeTable writes a table on one line, for comparisons.
func describeTable(t *Table) string {
	var s strings.Builder
	if t.RowNames != nil {
		fmt.Fprintf(&s, "rows %q ", t.RowNames)
	}
	for _, c := range t.Columns {
		if c.Values != nil {
			fmt.Fprintf(&s, "%s%v ", c.Name, c.Values)
		} else {
			fmt.Fprintf(&s, "%s%q%v ", c.Name, c.Levels, c.Codes)
		}
	}
	return strings.TrimSpace(s.String())
}

// Tables as programs write them.
func TestTablesOfManyPrograms(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"R, write.csv", "\"\",\"mpg\",\"car\"\n\"Mazda RX4\",21,\"a\"\n\"Fiat \"\"128\"\"\",32.4,NA\n",
			`rows ["Mazda RX4" "Fiat \"128\""] mpg[21 32.4] car["a"][0 -1]`},
		{"R, write.csv2", "\"\";\"a\";\"b\"\n\"x\";1,5;2\n\"y\";-0,5;3e-1\n", `rows ["x" "y"] a[1.5 -0.5] b[2 0.3]`},
		{"R, write.table", "\"a b\" \"c\"\n\"r 1\" 1 \"u\"\n\"r2\" NA \"v\"\n",
			`rows ["r 1" "r2"] a b[1 NaN] c["u" "v"][0 1]`},
		{"R, write.table with tabs", "a\tb\nr1\t1\t2\n", `rows ["r1"] a[1] b[2]`},
		{"pandas with its index", ",a,b\n0,1.0,u\n1,,v\n", `rows ["0" "1"] a[1 NaN] b["u" "v"][0 1]`},
		{"pandas, read and written again", "Unnamed: 0,a\n0,1\n1,2\n", `rows ["0" "1"] a[1 2]`},
		{"a spreadsheet", "\ufeffa;b;;\r\n1,5;x;;\r\n;y;;\r\n;;;\r\n;;;\r\n", `a[1.5 NaN] b["x" "y"][0 1]`},
		{"a spreadsheet with its separator", "sep=;\r\na;b\r\n1;2\r\n", `a[1] b[2]`},
		{"numpy.savetxt", "# made by hand\n# a,b\n1,2\n3,4\n", `a[1 3] b[2 4]`},
		{"aligned columns", "a   b\n1   2\n10 20\n", `a[1 10] b[2 20]`},
		{"logical values", "a,b\nTRUE,1\nfalse,2\n,3\n", `a[1 0 NaN] b[1 2 3]`},
		{"marks of missing values", "a,b\n?,x\nn/a,#N/A\n.,NULL\n1,y\n", `a[NaN NaN NaN 1] b["x" "y"][0 -1 -1 1]`},
		{"None is no mark", "a\nNone\nx\n", `a["None" "x"][0 1]`},
		{"marks in quotes are texts, but among numbers", "a,b\n\"NA\",\"NA\"\nNA,1\n\"x\",\"\"\n",
			`a["NA" "x"][0 -1 1] b[NaN 1 NaN]`},
		{"marks in quotes alone", "a\n\"NA\"\nNA\n", `a["NA"][0 -1]`},
		{"quoted numbers among texts", "a,b\n\"4\",1\n\"04\",2\n\"rotary\",3\n",
			`a["04" "4" "rotary"][1 0 2] b[1 2 3]`},
		{"texts that look like numbers among others", "a,b\n100%,\"100%\"\nnone,\"none\"\n",
			`a["100%" "none"][0 1] b["100%" "none"][0 1]`},
		{"quoted numbers alone", "a,b\n\"4\",1\nNA,2\n\"6\",3\n", `a[4 NaN 6] b[1 2 3]`},
		{"texts in the order of their bytes", "a\nb\n\na\nB\n", `a["B" "a" "b"][2 -1 1 0]`},
		{"a name with a separator", "\"a,b\",c\n1,\"x\ny\"\n", `a,b[1] c["x\ny"][0]`},
		{"no last newline", "a,b\n1,2", `a[1] b[2]`},
	} {
		table, err := ReadTable(strings.NewReader(c.text), TableOptions{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got := describeTable(table); got != c.want {
			t.Errorf("%s: %s, expected %s", c.name, got, c.want)
		}
	}
}

// Columns that are not asked for may hold anything; a column of numbers may stand for categories.
func TestTableColumnsAreReadAsAsked(t *testing.T) {
	table, err := ReadTable(strings.NewReader("a,mixed,code\n1,x,4\n2,7,6\n3,,4\n"), TableOptions{
		Read: func(name string) bool { return name != "mixed" },
		Text: func(name string) bool { return name == "code" },
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := describeTable(table); got != `a[1 2 3] code["4" "6"][0 1 0]` ||
		!slices.Equal(table.Unread, []string{"mixed"}) || !slices.Equal(table.Lines, []int{2, 3, 4}) {
		t.Errorf("%s, unread %q, lines %v", got, table.Unread, table.Lines)
	}
	if c, err := table.Column("a"); err != nil || c.Missing(0) {
		t.Errorf("%+v, %v", c, err)
	}
	_, err = table.Column("A")
	checkError(t, err, `column "A" is missing; the table holds "a", "code", "mixed": did you mean "a"?`)
}

func TestBadTablesAreRefusedByPlace(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "holds no rows"},
		{"a,b\n", "holds a header line, line 1, and no rows"},
		{"a,b\n,\n,\n", "holds a header line and no rows"},
		{"1,2\n3,4\n", "line 1 holds numbers only, expected the names of the columns"},
		{"a,b\n1,2\n3\n", "line 3 has 1 cells, expected 2 as in the header line and the first row"},
		{"a,b,c\n1,2,3\n1,5,2,3\n", "line 3 has 4 cells, expected 3 as in the header line and the first row; a " +
			"cell with a separator or a decimal comma in it must be quoted, or the separator be another"},
		{"a,a\n1,2\n", `line 1: two columns are named "a"`},
		{"a,,c\n1,2,3\n", `line 2, column 2: found "2", but the column has no name in the header line`},
		{"a,b\n1,x\n2,3\n", `line 3, column "b": found the number "3" in a column of texts such as "x" (line 2); expected one kind (--na names texts that stand for missing values), or the column to be categorical, or dropped`},
		{"a,b\n1,2\n2,x\n", `line 3, column "b": found "x" in a column of numbers such as 2 (line 2); expected a number, an empty cell or NA where one is missing (--na names other texts), or the column to be categorical, or dropped`},
		{"a,b\n1,\"1,234\"\n", `line 2, column "b": found "1,234", expected a number with a decimal point, and without separators of thousands, or the column to be categorical, or dropped`},
		{"a,b\n\"x\",1\n7,2\n", `line 3, column "a": found the number "7" in a column of texts such as "x" (line 2); expected one kind (--na names texts that stand for missing values), or the column to be categorical, or dropped`},
		{"a,b\n1,\"4\"\n1,5\n1,\"x\"\n", `line 4, column "b": found "x" in a column of numbers such as 4 (line 2); expected a number, an empty cell or NA where one is missing (--na names other texts), or the column to be categorical, or dropped`},
		{"a,b\n1,1_000\n", `line 2, column "b": found "1_000", expected a finite number, or the column to be categorical, or dropped`},
		{"a,b\n1,0x10\n", `line 2, column "b": found "0x10", expected a finite number, or the column to be categorical, or dropped`},
		{"a,b\n1,1.5D+02\n", `line 2, column "b": found "1.5D+02", expected a finite number, or the column to be categorical, or dropped`},
		{"a,b\n1,'12\n", `line 2, column "b": found "'12", expected a finite number, or the column to be categorical, or dropped`},
		{"a,b\n1,１２\n", `line 2, column "b": found "１２", expected a finite number, or the column to be categorical, or dropped`},
		{"a,b\n1,−5\n", `line 2, column "b": found "−5", expected a finite number, or the column to be categorical, or dropped`},
		{"a,b\n1,(12)\n", `line 2, column "b": found "(12)", expected a finite number, or the column to be categorical, or dropped`},
		{"a,b\n1,12\u00a0000\n", `line 2, column "b": found "12\u00a0000", expected cells separated by commas, semicolons or tabs, or the column to be categorical, or dropped`},
		{"a,b\n1,12%\n2,13%\n", `line 2, column "b": found "12%", expected a finite number, or the column to be categorical, or dropped`},
		{"a,b\n1,12%\n2,13\n", `line 2, column "b": found "12%", expected a finite number, or the column to be categorical, or dropped`},
		{"a,b\n1,13\n2,12%\n", `line 3, column "b": found "12%", expected a finite number`},
		{"a,b\n1,12%\n", `line 2, column "b": found "12%", expected a finite number, or the column to be categorical, or dropped`},
		{"a,b\n1,Inf\n", `line 2, column "b": found "Inf", expected a finite number, or the column to be categorical, or dropped`},
		{"a;b\n1,5;2\n1;2.5\n", `line 3, column "b": found "2.5", but also "1,5" (line 2, column "a"): expected decimal points or decimal commas, not both`},
		{"a,b\n1,2\"3\n", `line 2: a quote (") stands inside an unquoted cell, expected quotes around the whole cell, next to the separators`},
		{"a,b\n\"1,2\n", `line 2: a quoted cell does not end in a quote (") followed by a separator; a quote within it is written twice ("")`},
		{"\xff\xfea\x00", "is text in UTF-16, expected UTF-8 (in a spreadsheet: save as \"CSV UTF-8\")"},
		{"PK\x03\x04....", "is an archive or a spreadsheet, expected text: save it as .csv"},
		{"a,b\n1,caf\xe9\n", `line 2, column "b": the text "caf\xe9" is not in UTF-8`},
		{"sep=x\na,b\n", `line 1 is "sep=x", expected a comma, semicolon, tab, space or | after sep=`},
	} {
		_, err := ReadTable(strings.NewReader(c.text), TableOptions{})
		if err == nil {
			t.Errorf("%q: no error", c.text)
			continue
		}
		checkError(t, err, c.want)
	}
}

func TestOpenTable(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "t.tsv.gz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	z.Write([]byte("a\tb\n1\t2\n"))
	z.Close()
	f.Close()
	table, err := OpenTable(path, TableOptions{})
	if err != nil || table.Rows() != 1 {
		t.Fatalf("%+v, %v", table, err)
	}
	_, err = OpenTable(filepath.Join(dir, "t.npz"), TableOptions{})
	checkError(t, err, filepath.Join(dir, "t.npz")+": is no table by its name, expected a table with a header "+
		"line (.csv or .tsv)")
	set := HoldTable(Array{Name: "y", Shape: []int{2}, Data: []float64{1, math.Pi}})
	if a, err := set.Floats("y"); err != nil || a.Data[1] != math.Pi || !set.Named() {
		t.Errorf("%+v, %v", a, err)
	}
}

// No text makes the reader panic, and what it reads is rectangular.
func FuzzReadTable(f *testing.F) {
	for _, s := range []string{"a,b\n1,2\n", "a b\nr 1 2\n", "sep=;\na;b\n1,5;x\n", "\"\",x\n\"a\nb\",TRUE\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		table, err := ReadTable(strings.NewReader(text), TableOptions{})
		if err != nil {
			return
		}
		for _, c := range table.Columns {
			if max(len(c.Values), len(c.Codes)) != table.Rows() || (c.Values == nil) == (c.Codes == nil) {
				t.Fatalf("%d rows, %+v", table.Rows(), c)
			}
		}
	})
}

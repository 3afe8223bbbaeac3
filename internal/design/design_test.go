package design_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/dataio"
	"surepipe/internal/design"
)

const trees = "girth,height,kind,volume\n8.3,70,oak,10.3\n8.6,,ash,10.3\n8.8,63,,10.2\n10.5,72,oak,16.4\n10.7,81,ash,\n10.8,83,elm,19.7\n"

func read(t *testing.T, text string) *dataio.Table {
	t.Helper()
	table, err := dataio.ReadTable(strings.NewReader(text), dataio.TableOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func rows(x *mat.Dense) string { return fmt.Sprint(x.RawMatrix().Data) }

// Texts are indicators, of all levels or with a reference; rows with missing values are left out, or
// filled with means of the rows that have a response.
func TestCoding(t *testing.T) {
	for _, c := range []struct {
		o            design.Options
		names, x, y  string
		left, filled int
		groups       []int
		redundant    []int
	}{
		{design.Options{Missing: design.Drop}, "[girth height kind=elm kind=oak]",
			"[8.3 70 0 1 10.5 72 0 1 10.8 83 1 0]", "[10.3 16.4 19.7]", 3, 0, []int{0, 1, 2, 2}, []int{2}},
		{design.Options{Missing: design.Drop, Reference: true}, "[girth height kind=oak]",
			"[8.3 70 1 10.5 72 1 10.8 83 0]", "[10.3 16.4 19.7]", 3, 0, []int{0, 1, 2}, nil},
		{design.Options{Missing: design.Drop, Binary: true}, "[girth height kind=oak]",
			"[8.3 70 1 10.5 72 1 10.8 83 0]", "[10.3 16.4 19.7]", 3, 0, []int{0, 1, 2}, nil},
		{design.Options{Missing: design.Mean, Drop: []string{"girth"}, Binary: true},
			"[height kind=ash kind=elm kind=oak]", "[70 0 0 1 72 1 0 0 63 0.25 0.25 0.5 72 0 0 1 83 0 1 0]",
			"[10.3 10.3 10.2 16.4 19.7]", 1, 2, []int{0, 1, 1, 1}, []int{1}},
		{design.Options{Missing: design.Drop, Only: []string{"girth"}}, "[girth]", "[8.3 8.6 8.8 10.5 10.8]",
			"[10.3 10.3 10.2 16.4 19.7]", 1, 0, []int{0}, nil},
	} {
		c.o.Response = "volume"
		data, err := design.Build(read(t, trees), c.o)
		if err != nil {
			t.Fatal(err)
		}
		d := data.Design
		if got := fmt.Sprint(d.Columns()); got != c.names || rows(data.X) != c.x || fmt.Sprint(data.Y) != c.y ||
			data.Left != c.left || data.Filled != c.filled {
			t.Errorf("%+v: %s %s %v, %d left out, %d filled", c.o, got, rows(data.X), data.Y, data.Left, data.Filled)
		}
		if !slices.Equal(d.Groups(), c.groups) || !slices.Equal(d.Redundant(), c.redundant) {
			t.Errorf("%+v: groups %v, redundant %v", c.o, d.Groups(), d.Redundant())
		}
	}
}

// New rows are coded by the names of their columns, whatever their order.
func TestNewRows(t *testing.T) {
	data, err := design.Build(read(t, trees), design.Options{Response: "volume", Missing: design.Drop})
	if err != nil {
		t.Fatal(err)
	}
	got, err := data.Design.Code(read(t, "kind,id,height,girth\noak,1,7,1\nelm,2,8,2\n"))
	if err != nil || rows(got.X) != "[1 7 0 1 2 8 1 0]" || got.Y != nil {
		t.Errorf("%+v, %v", got, err)
	}
	dir := t.TempDir()
	for _, c := range []struct{ text, want string }{
		{"kind,height\noak,7\n", `column "girth" is missing; the table holds "kind", "height"`},
		{"kind\noak\n", `2 columns of the fit are missing: "girth", "height"; the table holds "kind"`},
		{"kind,height,girth\nash,7,1\n", `line 2, column "kind": found the level "ash", which the fit does not know; expected one of "elm", "oak"`},
		{"kind,height,girth\noak,7,1\noak,,1\n", `line 3, column "height": the value is missing`},
		{"kind,height,girth\noak,tall,1\n", `column "height" holds texts such as "tall", but numbers in the fit`},
	} {
		path := filepath.Join(dir, "new.csv")
		if err := os.WriteFile(path, []byte(c.text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := data.Design.OpenRows(dataio.Files{}, path, nil); err == nil || err.Error() != path+": "+c.want {
			t.Errorf("%q: %v, expected %s", c.text, err, c.want)
		}
	}
	filled, err := design.Build(read(t, trees), design.Options{Response: "volume", Missing: design.Mean})
	if err != nil {
		t.Fatal(err)
	}
	got, err = filled.Design.Code(read(t, "kind,height,girth,volume\n,,1,3\n"))
	if err != nil || rows(got.X) != "[1 72 0.25 0.25 0.5]" || got.Filled != 2 || !slices.Equal(got.Y, []float64{3}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestBadOptionsAreNamed(t *testing.T) {
	for _, c := range []struct {
		o    design.Options
		want string
	}{
		{design.Options{Response: "volum"}, `response: column "volum" is missing; the table holds "girth", "height", "kind", "volume": did you mean "volume"?`},
		{design.Options{Response: "kind"}, `response: column "kind" holds texts such as "ash", expected numbers`},
		{design.Options{Response: "volume", Drop: []string{"volume"}}, `drop: column "volume" is the response`},
		{design.Options{Response: "volume", Only: []string{"girht"}},
			`only: column "girht" is missing; the table holds "girth", "height", "kind", "volume": did you mean "girth"?`},
		{design.Options{Response: "volume", Drop: []string{"girth", "height", "kind"}},
			`response: no column besides "volume" is left for X`},
		{design.Options{Response: "volume", Categorical: []string{"kind"}, Drop: []string{"kind"}},
			`categorical: column "kind" is not used`},
		{design.Options{Response: "volume", Missing: "guess"}, `missing: found "guess", expected error, drop or mean`},
		{design.Options{Response: "volume"}, `missing: line 3, column "height": the value is missing, the first of 3 (volume 1, height 1, kind 1); expected drop, to leave out such rows, or mean, to put the column's mean in their place`},
	} {
		if _, err := design.Build(read(t, trees), c.o); err == nil || err.Error() != c.want {
			t.Errorf("%+v: %v, expected %s", c.o, err, c.want)
		}
	}
	for text, want := range map[string]string{
		"y,size\n1,\"1\"\n2,\"2\"\n3,\"huge\"\n": `column "size" holds numbers in quotes and texts among them, "huge": write these as missing values, or leave it out with drop`,
		"y,name\n1,a\n2,b\n3,c\n":                `column "name" holds 3 different texts in 3 rows, such as "a": a name and not a category; leave it out with drop`,
		"y,none,x\n1,,1\n2,NA,2\n":               `column "none" holds no values in the 2 rows that are used; leave it out with drop`,
		"y,x\n1,\n,2\n":                          "missing: no row is left: each of the 2 has a missing value",
	} {
		o := design.Options{Response: "y", Missing: design.Mean}
		if strings.HasPrefix(want, "missing") {
			o.Missing = design.Drop
		}
		if _, err := design.Build(read(t, text), o); err == nil || err.Error() != want {
			t.Errorf("%q: %v, expected %s", text, err, want)
		}
	}
}

func Example() {
	table, err := dataio.ReadTable(strings.NewReader("town,rooms,price\nBath,3,210\nYork,4,268\nBath,2,160\n"),
		dataio.TableOptions{})
	if err != nil {
		panic(err)
	}
	data, err := design.Build(table, design.Options{Response: "price"})
	if err != nil {
		panic(err)
	}
	fmt.Println(data.Design.Columns(), data.Design.Groups())
	fmt.Println(mat.Formatted(data.X))
	fmt.Println(data.Y, math.IsNaN(data.Y[0]))
	// Output:
	// [town=Bath town=York rooms] [0 0 1]
	// ⎡1  0  3⎤
	// ⎢0  1  4⎥
	// ⎣1  0  2⎦
	// [210 268 160] false
}

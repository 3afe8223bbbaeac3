package design_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"surepipe/internal/design"
)

// Rows and columns are named by texts or numbers, in any order.
func TestEntries(t *testing.T) {
	dir := t.TempDir()
	file := func(text string) string {
		path := filepath.Join(dir, "ratings.csv")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	e, err := design.OpenEntries(file("when,user,rating,item\n1,bob,4,30\n2,ann,3,7\n3,bob,,7\n4,eve,5,30\n"),
		design.Options{Response: "rating", Drop: []string{"when"}, Missing: design.Drop})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%s %q %s %q %v %v %d", e.RowsBy, e.Rows, e.ColumnsBy, e.Columns, e.Places, e.Y,
		e.Left), `user ["ann" "bob" "eve"] item ["30" "7"] [2 1 4] [4 3 5] 1`; got != want {
		t.Errorf("%s, expected %s", got, want)
	}
	for _, c := range []struct {
		text, want string
		o          design.Options
	}{
		{"u,i,r\na,x,1\na,x,2\n", `PATH: line 3 repeats the entry of line 2, u "a" and i "x": expected each to be observed once`, design.Options{}},
		{"u,i,r,t\na,x,1,2\n", `only: 3 columns besides "r" are left, "u", "i", "t"; expected two, which name the rows and the columns of the matrix`, design.Options{}},
		{"u,r\na,1\n", `only: 1 columns besides "r" are left, "u"; expected two, which name the rows and the columns of the matrix`, design.Options{}},
		{"u,i,r\na,x,good\n", `response: column "r" holds texts such as "good", expected numbers`, design.Options{}},
		{"u,i,r\na,,1\n", `missing: line 2, column "i": the value is missing, the first of 1 (i 1); expected drop, to leave out such rows, or mean, to put the column's mean in their place`, design.Options{}},
		{"u,i,r\na,x,1\n", "missing: found mean, but entries of a matrix have no mean to put in their place: " +
			"expected error or drop", design.Options{Missing: design.Mean}},
	} {
		path := file(c.text)
		c.o.Response = "r"
		want := c.want
		if len(want) > 4 && want[:4] == "PATH" {
			want = path + want[4:]
		}
		if _, err := design.OpenEntries(path, c.o); err == nil || err.Error() != want {
			t.Errorf("%q: %v, expected %s", c.text, err, want)
		}
	}
}

package page_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"surepipe/study"
	"surepipe/study/page"
)

// A page of one estimate: names in it are data, not markup.
func Example() {
	df := 2.0
	d := page.New("<b>.csv", "surepipe run --problem lasso --data '<b>.csv' --lambda 1", "")
	d.Point(study.SweepLine{Result: study.Result{Problem: "lasso", D: 10, P: 3,
		CriteriaResult: study.CriteriaResult{DF: &df}, Divergence: df}})
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "page.html")
	if err := d.Write(path); err != nil {
		fmt.Println(err)
		return
	}
	text, err := os.ReadFile(path)
	fmt.Println(strings.Contains(string(text), `"name":"\u003cb\u003e.csv"`), strings.Contains(string(text), "<b>"), err)
	// Output: true false <nil>
}

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A level with one outcome only has no finite coefficient: each likelihood says so, names it, and says nothing where
// the level has the other outcome once, or a penalty bounds it.
func TestCoefficientsThatNothingBoundsAreTold(t *testing.T) {
	outcomes := map[string][]string{"logistic": {"1", "0"}, "poisson": {"0", "2"}, "multinomial": {"u", "v", "w"},
		"cox": {"0", "1"}}
	for loss, of := range outcomes {
		for _, c := range []struct {
			problem    string
			other, say bool
		}{{"ols", false, true}, {"ols", true, false}, {"ridge", false, false},
			{"sweep", false, true}, {"sweep", true, false}} {
			r := rand.New(rand.NewPCG(7, 7))
			var table strings.Builder
			table.WriteString("y,g,x,t\n")
			for i := range 120 {
				g, y := i%3, of[r.IntN(len(of))]
				if g == 2 {
					if y = of[0]; c.other {
						y = of[i/3%len(of)]
					}
				}
				fmt.Fprintf(&table, "%s,%c,%g,%g\n", y, 'a'+g, r.NormFloat64(), r.ExpFloat64())
			}
			path := filepath.Join(t.TempDir(), "levels.csv")
			if err := os.WriteFile(path, []byte(table.String()), 0o666); err != nil {
				t.Fatal(err)
			}
			args := []string{"run", "--problem", c.problem, "--loss", loss, "--data", path, "--response", "y"}
			if loss == "cox" {
				args = append(args, "--time", "t")
			} else {
				args = append(args, "--only", "g,x")
			}
			if c.problem == "ridge" {
				args = append(args, "--lambda", "1")
			}
			if c.problem == "sweep" { // x alone has a penalty
				args[0], args[2] = "sweep", "ridge"
				args = append(args, "--lambda", "1:10:3", "--factors", "g=*=0,x=1")
			}
			status, _, stderr := command(t, args...)
			told := strings.Contains(stderr, "no penalty bounds the coefficients of ") && strings.Contains(stderr, "g=c")
			if status != 0 || told != c.say {
				t.Errorf("%s, %+v: status %d, told %t: %s", loss, c, status, told, stderr)
			}
		}
	}
}

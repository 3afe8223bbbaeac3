package hutch

import "fmt"

// hutchPP is Hutch++: the exact trace on a basis of the sketch's span and Hutchinson's estimate
// off it (Meyer, Musco, Musco and Woodruff 2021, algorithm 1). A third of the queries is for each
// of the phases.
type hutchPP struct{}

func (hutchPP) Name() string            { return HutchPP }
func (hutchPP) First(share float64) int { return 3 * firstProbes(share) }

func (hutchPP) layout(queries int) (Layout, string) {
	if queries < 6 || queries%3 != 0 {
		return Layout{}, hutchPPReason(queries)
	}
	return Layout{Sketch: queries / 3, Basis: SketchBasis, Residual: queries / 3, Needs: Forms}, ""
}

func hutchPPReason(queries int) string {
	if queries < 6 {
		return "hutch++ takes a multiple of 3 (it has three phases of equal size), at least 6"
	}
	below := queries / 3 * 3
	return fmt.Sprintf("hutch++ takes a multiple of 3 (it has three phases of equal size), such as %d or %d", below,
		below+3)
}

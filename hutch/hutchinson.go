package hutch

// hutchinson is the mean of <g_j, M g_j> over independent Rademacher vectors g_j (Hutchinson
// 1989). Its phase is the residual one, with an empty basis.
type hutchinson struct{}

func (hutchinson) Name() string            { return Hutchinson }
func (hutchinson) First(share float64) int { return firstProbes(share) }

func (hutchinson) layout(queries int) (Layout, string) {
	if queries < 2 {
		return Layout{}, "hutchinson takes 2 or more: fewer have no standard error"
	}
	return Layout{Residual: queries, Needs: Forms}, ""
}

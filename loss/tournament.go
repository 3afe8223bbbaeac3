package loss

// tournament is a sum of numbers of which each can be changed, without cancellation: a binary tree of partial sums.
type tournament []float64

func (t tournament) set(i int, v float64) {
	i += len(t) / 2
	for t[i] = v; i > 1; i /= 2 {
		t[i/2] = t[i&^1] + t[i|1]
	}
}

package solve

// The two ways to project on the columns of free coordinates.
var ProjectFree, ProjectByProducts = projectFree, projectByProducts

// SetMostFactorized changes the largest number of entries of a factor, and returns what puts it back.
func SetMostFactorized(n int64) func() {
	before := mostFactorized
	mostFactorized = n
	return func() { mostFactorized = before }
}

// SetMostStacked changes the largest number of columns of A above K for a dense factorization, and
// returns what puts it back.
func SetMostStacked(n int) func() {
	before := mostStacked
	mostStacked = n
	return func() { mostStacked = before }
}

package lowrank

import "testing"

// FollowAll makes followers of matrices of any size until the test ends.
func FollowAll(t testing.TB) {
	old := minFollow
	minFollow = 1
	t.Cleanup(func() { minFollow = old })
}

//go:build !race

package linops_test

const raceEnabled = false

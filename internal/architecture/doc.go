// Package architecture holds the rules of the layout as tests: which package may import which, how
// long files and functions may be, and that what a value knows of itself is asked for by a method
// that returns it, not by type assertions.
package architecture

// Package architecture tests the rules of the layout: which package may import which, how long
// files and functions may be, and that the structure of a value is obtained from a method that
// returns it, not by type assertions.
package architecture

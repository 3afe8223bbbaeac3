// Package outofcore holds the operator of a matrix in a store slower than memory, such as a file, which is read in
// blocks of lines.
//
// A store describes itself by [Lines]: its size, how to read rows or columns of it, and the means of its
// columns. [NewOutOfCore] makes an operator of it. Each product is a pass over the store, of which the
// operator keeps count in its [linops.Structure]; on a few coordinates it is a matrix in memory. So a solver
// that works on few columns at a time reads the store rarely.
package outofcore

// Package product holds what products of operators share: checks of shapes, and values that are kept for a
// few eta.
package product

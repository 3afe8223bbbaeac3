// Package product holds what products of operators share: checks of shapes, loops on all processors of
// the host, and values that are kept for a few eta.
package product

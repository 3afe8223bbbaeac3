// Package vector holds what regularizers share: checks of arguments, norms and sums on the host, projections by
// a water level, and spaces of clusters.
package vector

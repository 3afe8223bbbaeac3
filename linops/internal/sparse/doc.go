// Package sparse holds compressed sparse matrices on the host, and the components of their graphs.
package sparse

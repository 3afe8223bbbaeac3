// Package worker serves estimates to programs in other languages: one process, JSON-RPC 2.0 in frames with a
// Content-Length over standard input and output, any number of requests at a time. Arrays of a megabyte and more go
// through .npy files that both sides map, never through the pipe.
//
// [Serve] runs it. The methods are rows of a table, from whose Go types [Schema] follows; docs/worker.md is the guide
// for those who write a client.
//
// A request that fails, panics or is cancelled harms no other. When the client goes, so does all that the worker has:
// computations, estimators, files.
package worker

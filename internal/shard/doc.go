// Package shard divides numbered work among tasks: which part is this task's, in the words of the
// engine that started it.
//
// Work of N units, numbered from 0, is divided into n shards; shard i has the units
//
//	floor(i N/n), ..., floor((i+1) N/n) - 1,
//
// which differ by at most one in number and are none where n > N.
//
// Array jobs of Slurm, AWS Batch, Kubernetes, Cloud Run, Google Batch, Grid Engine, LSF and PBS, and
// processes of MPI, find i and n in their environment: see [Detect].
package shard

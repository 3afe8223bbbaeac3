package splitting

import (
	"context"
	"math"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops/krylov"
)

// Randomized Nystrom preconditioning (Frangella, Tropp, Udell 2023) of A*A + rho K*K: with A*A near U
// diag(lambda) U*, for every rho by the inverse of
//
//	e I + rho K*K + U diag(lambda) U*,
//
// where e stands for the eigenvalues of A*A that are left out, and K*K for itself where it has a closed form,
// else for its diagonal.

const (
	// mostNystrom bounds the rank, and nystromBytes the memory of its vectors.
	mostNystrom  = 256
	nystromBytes = 64 << 20
	// nystromFall is the fall of A*A's eigenvalues within the rank from which the approximation pays: it saves
	// about the root of that in steps. nystromFloor is the eigenvalue, relative to the first, at which it ends.
	nystromFall  = 100
	nystromFloor = 1e-7
)

type corrected struct {
	apply func(dst, r array.Batch)
	free  func()
}

// sketched reports that A is a matrix in memory, of which a sketch is made in one pass.
func (s *penalized) sketched() bool {
	return s.a.Entries.Known && s.a.Passes.Bytes == 0 && (s.k.SolveNormal != nil || s.k.ColumnNorms2 != nil)
}

// sketch approximates A*A, and drops the approximation where its eigenvalues fall too slowly.
func (s *penalized) sketch(ctx context.Context) error {
	dev := s.p.Device
	d, dim := s.p.A.Dims()
	rank := min(mostNystrom, dim/4, nystromBytes/(8*dim))
	if rank < 1 {
		return nil
	}
	y, err := krylov.NewNystrom(ctx, dev, dim, func(dst, x array.Batch) {
		t := dev.Alloc(x.K(), d)
		defer t.Free()
		s.p.A.Forward(t, x)
		s.p.A.Adjoint(dst, t)
	}, krylov.NystromOptions{MaxRank: rank, Shift: nystromFloor * s.normA2})
	if err != nil {
		return err
	}
	if y.Rank() == 0 || y.Rank() == rank && y.Values()[0] < nystromFall*y.Least() {
		y.Release()
		return nil
	}
	s.nystrom = y
	s.corrections = map[float64]corrected{}
	return nil
}

func (s *penalized) correction(rho float64) (func(dst, r array.Batch), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.corrections[rho]; ok {
		return c.apply, nil
	}
	left := math.Max(s.nystrom.Least(), 1e-9*s.nystrom.Values()[0])
	base, freeBase, err := s.beside(rho, left)
	if err != nil {
		return nil, err
	}
	apply, free, err := s.nystrom.Beside(base)
	if err != nil {
		freeBase()
		return nil, err
	}
	s.corrections[rho] = corrected{apply, func() {
		free()
		freeBase()
	}}
	return apply, nil
}

// beside is (left I + rho K*K)^{-1}, or that of the diagonal.
func (s *penalized) beside(rho, left float64) (apply func(dst, r array.Batch), free func(), err error) {
	if s.k.SolveNormal != nil {
		return func(dst, r array.Batch) {
			s.k.SolveNormal(dst, r, rho/left)
			dst.Device().Lin(dst, 1/left, dst, 0, array.Batch{})
		}, func() {}, nil
	}
	host := lists.Map(s.k2, func(v float64) float64 { return 1 / (left + rho*v) })
	w := s.p.Device.Alloc(1, len(host))
	s.p.Device.Upload(w, host)
	return func(dst, r array.Batch) { dst.Device().Mul(dst, r, w) }, w.Free, s.p.Device.Err()
}

func (s *penalized) releaseSketch() {
	for _, c := range s.corrections {
		c.free()
	}
	if s.nystrom != nil {
		s.nystrom.Release()
	}
}

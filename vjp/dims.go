package vjp

// Dims is the operator's.
func (g *proximalGradient) Dims() (d, p int) { return g.p.A.Dims() }

// Dims is the operator's.
func (s *workingSet) Dims() (d, p int) { return s.p.A.Dims() }

// Dims is the operator's.
func (s *lowRank) Dims() (d, p int) { return s.p.A.Dims() }

// Dims is the operator's.
func (s *admm) Dims() (d, p int) { return s.p.A.Dims() }

// Dims is the operator's.
func (s *direct) Dims() (d, p int) { return s.p.A.Dims() }

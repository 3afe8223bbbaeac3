package vjp

// Problem is what it solves.
func (g *proximalGradient) Problem() Problem { return g.p }

// Problem is what it solves.
func (s *workingSet) Problem() Problem { return s.p }

// Problem is what it solves.
func (s *lowRank) Problem() Problem { return s.p }

// Problem is what it solves.
func (s *admm) Problem() Problem { return s.p }

// Problem is what it solves.
func (s *direct) Problem() Problem { return s.p }

// Problem is that of the user's units.
func (e *equilibrated) Problem() Problem { return e.p }

package differential

// Case is one random problem, with everything needed to run it again.
type Case struct {
	// Seed and Index are what the case was drawn from.
	Seed  uint64
	Index int
	// Name is the named problem that problems.New makes of it; empty for an operator and a
	// regularizer of their own.
	Name string `json:",omitempty"`
	Op   Op
	Reg  Reg
	// K is the operator of r(K b); nil for the identity.
	K      *Op `json:",omitempty"`
	Y      []float64
	Sigma2 float64
	// Intercept centers y; Op is then a centered operator.
	Intercept bool `json:",omitempty"`

	// Solver is empty for the default.
	Solver     string
	Derivative string
	Estimator  string `json:",omitempty"`
	Queries    int    `json:",omitempty"`
	MaxIter    int    `json:",omitempty"`

	// Squares are terms lambda/2 ||K b||^2 besides Reg.
	Squares []Square `json:",omitempty"`

	// Features are the hostile ones, for the statistics.
	Features []string `json:",omitempty"`
}

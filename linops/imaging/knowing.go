package imaging

import "surepipe/linops"

// knowing holds the structure of an operator of this package, made when the operator is.
type knowing struct{ structure linops.Structure }

// Structure returns the structure of the operator.
func (k *knowing) Structure() linops.Structure { return k.structure }

package prox

// fusedKnown is a structure that was built once.
type fusedKnown struct{ structure Structure }

// Structure returns the regularizer's structure.
func (k *fusedKnown) Structure() Structure { return k.structure }

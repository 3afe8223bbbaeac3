package prox

// conesKnown is a structure that was built once.
type conesKnown struct{ structure Structure }

// Structure returns the regularizer's structure.
func (k *conesKnown) Structure() Structure { return k.structure }

package prox

// lowrankKnown is a structure that was built once.
type lowrankKnown struct{ structure Structure }

// Structure returns the regularizer's structure.
func (k *lowrankKnown) Structure() Structure { return k.structure }

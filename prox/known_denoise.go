package prox

// denoiseKnown is a structure that was built once.
type denoiseKnown struct{ structure Structure }

// Structure returns the regularizer's structure.
func (k *denoiseKnown) Structure() Structure { return k.structure }

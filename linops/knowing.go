package linops

// imagingKnowing holds the structure of an operator of this package, made when the operator is.
type imagingKnowing struct{ structure Structure }

// Structure returns the structure of the operator.
func (k *imagingKnowing) Structure() Structure { return k.structure }

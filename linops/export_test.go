package linops

// PanelsOf makes panels of matrices of at most so many entries, until the function that it returns
// is called.
func PanelsOf(values int) (restore func()) {
	before := panelValues
	panelValues = values
	return func() { panelValues = before }
}

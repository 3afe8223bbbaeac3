package imaging

// SumDirectlyUpTo makes convolutions sum kernels of at most that many taps tap by tap, until the
// function that it returns is called.
func SumDirectlyUpTo(taps int) (restore func()) {
	before := directTaps
	directTaps = taps
	return func() { directTaps = before }
}

package study

import "surepipe/input"

// Those of package input stand here too, which every package below refuses bad input with.
type (
	Error  = input.Error
	Option = input.Option
)

var (
	Errorf  = input.Errorf
	Bad     = input.Bad
	Because = input.Because
	Text    = input.Text
)

package study

import (
	"errors"
	"fmt"
)

// Option is the name of an option in an [Error]. A command has a flag for it, a service a field of a request.
type Option string

// Error is bad input: what was found, and what was expected instead. Its text names options, files,
// arrays and columns.
type Error struct {
	format string
	args   []any
	err    error
}

// Errorf is an [Error] with the text of [fmt.Errorf]. Arguments that are of type [Option] are the names
// of options.
func Errorf(format string, args ...any) error {
	return &Error{format, args, fmt.Errorf(format, args...)}
}

// Bad marks an error of a package that reads input as bad input.
func Bad(err error) error { return Errorf("%w", err) }

// Error names options as they are.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap is the error with the same text.
func (e *Error) Unwrap() error { return e.err }

// Text is the text of an error in which options, also those of the errors that it wraps, have the
// names that the caller gives them.
func Text(err error, name func(Option) string) string {
	e, ok := err.(*Error)
	if !ok {
		return err.Error()
	}
	args := make([]any, len(e.args))
	for i, arg := range e.args {
		switch arg := arg.(type) {
		case Option:
			args[i] = name(arg)
		case error:
			args[i] = errors.New(Text(arg, name))
		default:
			args[i] = arg
		}
	}
	return fmt.Errorf(e.format, args...).Error()
}

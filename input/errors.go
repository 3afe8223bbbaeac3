// Package input is the error of bad input: what it is about, what was found, and what was expected instead. Every
// package that takes input refuses it by one, so that a command, a service or a worker can say what to change.
package input

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Option is the name of an option in an [Error]. A command has a flag for it, a service a field of a request.
type Option string

// Error is bad input: what was found, and what was expected instead. Its text names options, files,
// arrays and columns.
type Error struct {
	// Field is the option, array or column that it is about, "" where that is not known; Found is what it was, and
	// Expected what it should have been, each as the text says it.
	Field, Found, Expected string

	format string
	args   []any
	err    error
	cause  error // that its text does not show
}

// named finds the verbs of a format, and the options in it.
var named = regexp.MustCompile(`%[-+# 0-9.]*[a-zA-Z%]|--%s|--[a-zA-Z][\w-]*`)

// Errorf is an [Error] with the text of [fmt.Errorf]. Arguments of type [Option] are the names of options,
// and so is --name in the format, where --%s takes a string.
func Errorf(format string, args ...any) error {
	var all []any
	if !strings.Contains(format, "--") { // no option in it
		return made(format, args)
	}
	format = named.ReplaceAllStringFunc(format, func(verb string) string {
		name, option := strings.CutPrefix(verb, "--")
		switch {
		case verb == "%%":
			return verb
		case !option && len(args) > 0:
			all, args = append(all, args[0]), args[1:]
			return verb
		case !option:
			return verb
		case name == "%s" && len(args) > 0:
			all, args = append(all, Option(fmt.Sprint(args[0]))), args[1:]
		default:
			all = append(all, Option(name))
		}
		return "%s"
	})
	return made(format, append(all, args...))
}

func made(format string, args []any) error {
	e := &Error{format: format, args: args, err: fmt.Errorf(format, args...)}
	e.read()
	return e
}

// Bad marks an error of a package that reads input as bad input.
func Bad(err error) error { return Errorf("%w", err) }

// Error names options as they are.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap is the error with the same text, and what it was made of where that is not in the text.
func (e *Error) Unwrap() []error {
	if e.cause != nil {
		return []error{e.err, e.cause}
	}
	return []error{e.err}
}

// Because is an error with another text than what has caused it.
func Because(cause error, format string, args ...any) error {
	e := Errorf(format, args...).(*Error)
	e.cause = cause
	return e
}

// Text is the text of an error in which options, also those of the errors that it wraps, have the
// names that the caller gives them.
func Text(err error, name func(Option) string) string {
	e, ok := err.(*Error)
	if !ok {
		if text := err.Error(); errors.As(err, &e) {
			return strings.Replace(text, e.Error(), Text(e, name), 1)
		}
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

// The grammar of the texts: SUBJECT is FOUND, expected EXPECTED; the subject may be missing, and so may what was
// expected.
var (
	quoted = regexp.MustCompile(`(?:array|column|key) "([^"]*)"`)
	verbs  = []string{" is ", " has ", " holds ", ": found ", ", found ", " found "}
)

// said is what follows the first verb of a text; without one it is the text.
func said(text string) string {
	first, after := len(text), text
	for _, verb := range verbs {
		if at := strings.Index(text, verb); at >= 0 && at < first {
			first, after = at, text[at+len(verb):]
		}
	}
	return after
}

// read takes the fields from the arguments and the text; those of an error that it wraps go before.
func (e *Error) read() {
	var within *Error
	if errors.As(e.err, &within) && within.Field != "" {
		e.Field, e.Found, e.Expected = within.Field, within.Found, within.Expected
		return
	}
	for _, arg := range e.args {
		if option, ok := arg.(Option); ok {
			e.Field = string(option)
			break
		}
	}
	text := e.err.Error()
	if e.Field == "" && strings.Contains(text, `"`) {
		if name := quoted.FindStringSubmatch(text); name != nil {
			e.Field = name[1]
		}
	}
	if at := strings.LastIndex(text, "expected "); at >= 0 {
		e.Expected, text = text[at+len("expected "):], strings.TrimRight(text[:at], " ,;:.")
	}
	e.Found = said(text)
}

// MarshalJSON has the text as error, and the fields.
func (e *Error) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"error": e.Error(), "field": e.Field, "found": e.Found,
		"expected": e.Expected})
}

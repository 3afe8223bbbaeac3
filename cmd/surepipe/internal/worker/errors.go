package worker

import (
	"context"
	"errors"

	"github.com/creachadair/jrpc2"

	"surepipe"
	"surepipe/solve"
	"surepipe/study"
)

// The codes of errors, besides those of JSON-RPC itself: -32700 no JSON, -32600 no request, -32601 no such method,
// -32602 bad input, -32603 a panic, -32097 cancelled.
const (
	failed jrpc2.Code = -32000
	busy   jrpc2.Code = -32001
)

// ErrorData is what an error says besides its text.
type ErrorData struct {
	Status   int    `json:"status" jsonschema:"the exit status of the command: 1 a failure, 2 bad input, 130 cancelled"`
	Field    string `json:"field,omitempty" jsonschema:"the option, array or key that the error is about"`
	Found    string `json:"found,omitempty" jsonschema:"what was found there"`
	Expected string `json:"expected,omitempty" jsonschema:"what was expected"`
}

func answer(ctx context.Context, err error) error {
	var e *jrpc2.Error
	var bad *study.Error
	var infeasible *solve.InfeasibleError
	var panicked *surepipe.PanicError
	code, data := failed, ErrorData{Status: 1}
	switch {
	case err == nil || errors.As(err, &e):
		return err
	case ctx.Err() != nil:
		code, data.Status = jrpc2.Cancelled, 130
	case errors.As(err, &panicked):
		code = jrpc2.InternalError
	case errors.As(err, &bad):
		code, data = jrpc2.InvalidParams, ErrorData{2, bad.Field, bad.Found, bad.Expected}
	case errors.As(err, &infeasible):
		code, data.Status = jrpc2.InvalidParams, 2
	}
	text := study.Text(err, func(o study.Option) string { return string(o) })
	return jrpc2.Errorf(code, "%s", text).WithData(data)
}

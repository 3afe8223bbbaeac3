package worker

import (
	"context"
	"encoding/json"
	"reflect"

	"github.com/creachadair/jrpc2"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/spf13/pflag"

	"surepipe"
	"surepipe/internal/lists"
	"surepipe/study"
)

type method struct {
	name, help string
	// computes says that it waits for a place among those that compute.
	computes       bool
	params, result reflect.Type
	call           func(*worker, context.Context, *jrpc2.Request) (any, error)
}

func row[P, R any](name string, computes bool, help string, f func(*worker, context.Context, P) (R, error)) method {
	return method{name, help, computes, reflect.TypeFor[P](), reflect.TypeFor[R](),
		func(w *worker, ctx context.Context, r *jrpc2.Request) (any, error) {
			p, err := params[P](r)
			if err != nil {
				return nil, err
			}
			return f(w, ctx, p)
		}}
}

func methods() []method {
	return []method{
		row("info", false, "what the worker is", info),
		row("open", true, "read data and make an estimator, until it is closed", open),
		row("fit", true, "estimate b, mu_hat and the risk at the estimator's weights", fit),
		row("sweep", true, "estimate the risk on a grid of weights, and search for the minimum", sweep),
		row("predict", true, "predict new rows, or entries of a matrix, from a fit", predict),
		row("audit", true, "fit, and compare what a criterion says of some observations with fits without them", audit),
		row("denoise", true, "denoise an image, with weights that SURE chooses", denoise),
		row("denoise_series", true, "denoise a series of images, as surepipe denoise", denoiseSeries),
		row("sigma2", true, "estimate the variance of the noise", sigma2),
		row("risk", true, "the risk of a function of the client's, which is called back for its values", riskOf),
		row("close", false, "release an estimator or a fit", closeOne),
		row("cancel", false, "end another request, whose error is then -32097; also the notification $/cancelRequest",
			cancelOne),
		row("shutdown", false, "end all requests, and then the worker", shutdown),
	}
}

func methodNamed(name string) (method, bool) {
	return lists.Find(methods(), func(m method) bool { return m.name == name })
}

func names() []string {
	return lists.Map(methods(), func(m method) string { return m.name })
}

// messages are those that the worker sends besides answers.
var messages = []struct {
	name, help string
	of, result reflect.Type
}{
	{"progress", "notification: how far an estimator has come", reflect.TypeFor[Progress](), nil},
	{"warning", "notification: what is to be known of the data or the estimator", reflect.TypeFor[Warned](), nil},
	{"estimate", "request to the client: mu_hat(y) of its estimator", reflect.TypeFor[Called](),
		reflect.TypeFor[Array]()},
}

// shared are the types that stand once in the schema, by their names there.
var shared = map[string]reflect.Type{"Result": reflect.TypeFor[surepipe.Result](),
	"Point": reflect.TypeFor[surepipe.Point](), "Summary": reflect.TypeFor[surepipe.Summary]()}

// schemaOf is the JSON schema of a type; those that are shared are references in it.
func schemaOf(t reflect.Type, references bool) (*jsonschema.Schema, error) {
	known := map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[[]byte]():          {Type: "string", ContentEncoding: "base64"},
		reflect.TypeFor[json.RawMessage](): {},
		reflect.TypeFor[study.Number]():    {Types: []string{"number", "string"}},
	}
	for name, of := range shared {
		if references {
			known[of] = &jsonschema.Schema{Ref: "#/$defs/" + name}
		}
	}
	return jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: known})
}

// Schema is the JSON schema of the protocol: of the parameters and the result of each method, of the worker's own
// messages, of errors, and of the options.
func Schema(options *pflag.FlagSet) ([]byte, error) {
	type entry struct {
		Description string             `json:"description"`
		Params      *jsonschema.Schema `json:"params"`
		Result      *jsonschema.Schema `json:"result,omitempty"`
	}
	var failed error
	references := true
	of := func(t reflect.Type) *jsonschema.Schema {
		if t == nil {
			return nil
		}
		s, err := schemaOf(t, references)
		if err != nil {
			failed = err
		}
		return s
	}
	all := struct {
		Protocol int                           `json:"protocol"`
		Methods  map[string]entry              `json:"methods"`
		Messages map[string]entry              `json:"messages"`
		Error    *jsonschema.Schema            `json:"error_data"`
		Options  map[string]*jsonschema.Schema `json:"options"`
		Defs     map[string]*jsonschema.Schema `json:"$defs"`
	}{Protocol, map[string]entry{}, map[string]entry{}, of(reflect.TypeFor[ErrorData]()),
		map[string]*jsonschema.Schema{}, map[string]*jsonschema.Schema{}}
	for _, m := range methods() {
		all.Methods[m.name] = entry{m.help, of(m.params), of(m.result)}
	}
	for _, m := range messages {
		all.Messages[m.name] = entry{m.help, of(m.of), of(m.result)}
	}
	options.VisitAll(func(f *pflag.Flag) {
		kinds := []string{"string", "number"}
		switch f.Value.Type() {
		case "bool":
			kinds = []string{"boolean"}
		case "stringSlice":
			kinds = []string{"array", "string"}
		}
		all.Options[f.Name] = &jsonschema.Schema{Types: kinds, Description: f.Usage}
	})
	references = false
	for name, t := range shared {
		all.Defs[name] = of(t)
	}
	if failed != nil {
		return nil, failed
	}
	text, err := json.MarshalIndent(all, "", " ")
	return append(text, '\n'), err
}

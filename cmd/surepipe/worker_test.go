package main

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/channel"

	"surepipe/cmd/surepipe/internal/worker"
	"surepipe/internal/dataio"
	"surepipe/internal/parallel"
)

func init() {
	if len(os.Args) > 1 && os.Args[1] == "worker" { // this test binary is the program
		main()
	}
}

// dial starts a worker in this process, and returns its client and the directory of its arrays. Both end with the test.
func dial(t testing.TB, o *jrpc2.ClientOptions) (*jrpc2.Client, string) {
	t.Helper()
	in, toWorker := io.Pipe()
	fromWorker, out := io.Pipe()
	directory := t.TempDir()
	done := make(chan error, 1)
	go func() {
		done <- worker.Serve(context.Background(), worker.Options{In: in, Out: out, Directory: directory,
			Request: workerRequest})
		out.Close()
	}()
	if o == nil {
		o = new(jrpc2.ClientOptions)
	}
	o.OnCancel = func(c *jrpc2.Client, r *jrpc2.Response) {
		c.Notify(context.Background(), "$/cancelRequest", params{"id": json.RawMessage(r.ID())})
	}
	client := jrpc2.NewClient(channel.Header("")(fromWorker, toWorker), o)
	t.Cleanup(func() {
		client.Close()
		if err := <-done; err != nil {
			t.Errorf("the worker ends with %v", err)
		}
		if left, err := os.ReadDir(directory); err != nil || len(left) > 0 {
			t.Errorf("the worker leaves %v behind, %v", left, err)
		}
	})
	return client, directory
}

// ask calls a method, and returns its result.
func ask(t testing.TB, c *jrpc2.Client, method string, params map[string]any) map[string]any {
	t.Helper()
	result := map[string]any{}
	if err := c.CallResult(t.Context(), method, params, &result); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return result
}

type params = map[string]any

// openDiabetes opens a LASSO of Efron's data.
func openDiabetes(t testing.TB, c *jrpc2.Client, options params) string {
	t.Helper()
	all := params{"problem": "lasso", "data": "../../testdata/diabetes.npz"}
	for name, v := range options {
		all[name] = v
	}
	return ask(t, c, "open", params{"options": all})["estimator"].(string)
}

// timeless is a result without what differs between two runs, and between an option and a flag.
func timeless(v any) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, "--", "")
	case []any:
		clean := make([]any, len(v))
		for i, of := range v {
			clean[i] = timeless(of)
		}
		return clean
	case map[string]any:
		clean := params{}
		for key, of := range v {
			if key != "seconds" && key != "digest" {
				clean[key] = timeless(of)
			}
		}
		return clean
	}
	return v
}

// The worker's results are the command's, to the bit.
func TestWorkerAnswersAsTheCommand(t *testing.T) {
	c, _ := dial(t, nil)
	data := []string{"--problem", "lasso", "--data", "../../testdata/diabetes.npz"}
	e := openDiabetes(t, c, params{"lambda": "0.1max"})
	want := object(t, append(append([]string{"run"}, data...), "--lambda", "0.1max", "--coefficients")...)
	found := ask(t, c, "fit", params{"estimator": e, "coefficients": true})
	if !reflect.DeepEqual(timeless(found["result"]), timeless(want)) || found["status"] != 0.0 {
		t.Errorf("fit: %v\nthe command: %v", found, want)
	}
	want = object(t, append(append([]string{"run"}, data...), "--lambda", "0.1max", "--audit")...)
	found = ask(t, c, "audit", params{"estimator": e})
	if r := timeless(found["result"]); !reflect.DeepEqual(r, timeless(want)) || r.(params)["audit"] == nil {
		t.Errorf("audit: %v\nthe command: %v", found, want)
	}
	status, out, errors := command(t, append(append([]string{"sweep"}, data...), "--lambda", "0.05max:max:6", "--json")...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var summary any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &summary); err != nil || status != exitDone {
		t.Fatal(err, errors)
	}
	path := ask(t, c, "sweep", params{"estimator": e, "lambda": "0.05max:max:6"})
	if !reflect.DeepEqual(timeless(path["summary"]), timeless(summary)) {
		for key, v := range timeless(path["summary"]).(params) {
			if w := timeless(summary).(params)[key]; !reflect.DeepEqual(v, w) {
				t.Errorf("sweep: %s is %v, the command's %v", key, v, w)
			}
		}
	}
	for i, v := range path["points"].([]any) {
		var point any
		if err := json.Unmarshal([]byte(lines[1+i]), &point); err != nil || !reflect.DeepEqual(timeless(v),
			timeless(point)) {
			t.Errorf("point %d: %v\nthe command: %v, %v", i, v, point, err)
		}
	}
}

// Entries of a matrix come as arrays: all that were not observed, or those that are asked for.
// A request that opens its own estimator answers as one that names it.
func TestWorkerOpensForOneRequest(t *testing.T) {
	c, _ := dial(t, nil)
	options := params{"problem": "lasso", "data": "../../testdata/diabetes.npz", "intercept": true}
	grid := params{"lambda": "0.1max:max:4", "return": []string{"b"}, "brief": true, "path": true}
	with := func(more params) params {
		for k, v := range grid {
			more[k] = v
		}
		return more
	}
	own := ask(t, c, "sweep", with(params{"options": options}))
	e := ask(t, c, "open", params{"options": options})["estimator"]
	if named := ask(t, c, "sweep", with(params{"estimator": e})); !reflect.DeepEqual(timeless(own), timeless(named)) {
		t.Errorf("%v\nnamed: %v", own, named)
	}
	if point := own["points"].([]any)[0].(map[string]any); point["choices"] != nil || own["b"] == nil ||
		own["path"] == nil {
		t.Errorf("brief: %v", own)
	}
	_, err := c.Call(t.Context(), "fit", params{"estimator": e, "options": options})
	if err == nil || !strings.Contains(err.Error(), "expected one of them") {
		t.Errorf("both an estimator and options: %v", err)
	}
}

// The names of the columns of X are in warnings, in tables of coefficients, and in rules for columns.
func TestWorkerNamesColumns(t *testing.T) {
	c, _ := dial(t, nil)
	q := params{"options": params{"problem": "ridge", "loss": "logistic", "intercept": true, "lambda": 1, "factors": "ho*=0"},
		"arrays": params{"X": params{"shape": []int{6, 2}, "values": []float64{1, 0, -1, 0, 2, 0, -2, 0, 1, 1, 0, 1}},
			"y": params{"shape": []int{6}, "values": []float64{1, 0, 0, 1, 1, 1}}},
		"columns": []string{"dose", "hospital"}, "coefficients": true}
	result := fmt.Sprint(ask(t, c, "fit", q)["result"])
	for _, part := range []string{"no penalty bounds the coefficients of hospital,", "name:dose"} {
		if !strings.Contains(result, part) {
			t.Errorf("no %q in %s", part, result)
		}
	}
	q["columns"] = []string{"dose"}
	if _, err := c.Call(t.Context(), "fit", q); err == nil || !strings.Contains(err.Error(), "1 names, expected 2") {
		t.Errorf("one name: %v", err)
	}
}

func TestWorkerPredictsEntries(t *testing.T) {
	c, _ := dial(t, nil)
	numbers := func(v any) (all []float64) {
		b, err := base64.StdEncoding.DecodeString(v.(params)["base64"].(string))
		if err != nil {
			t.Fatal(err)
		}
		for ; len(b) > 0; b = b[8:] {
			all = append(all, math.Float64frombits(binary.LittleEndian.Uint64(b)))
		}
		return all
	}
	e := ask(t, c, "open", params{"options": params{"problem": "matrix-completion", "lambda": "0.3max",
		"data": "../../testdata/mc60x40.npz"}})["estimator"]
	fit := ask(t, c, "fit", params{"estimator": e, "keep": true, "return": []string{"mu_hat"}})
	all := ask(t, c, "predict", params{"fit": fit["fit"]})
	values, rows, columns := numbers(all["values"]), numbers(all["rows"]), numbers(all["columns"])
	if len(values) != 60*40-960 || all["count"] != float64(len(values)) || all["predicts"] != "entries" {
		t.Errorf("%d entries, %v", len(values), all)
	}
	wanted := params{"values": []float64{40*rows[7] + columns[7], 40*rows[3] + columns[3]}}
	some := ask(t, c, "predict", params{"fit": fit["fit"], "indices": wanted})
	if got := numbers(some["values"]); !slices.Equal(got, []float64{values[7], values[3]}) {
		t.Errorf("%v, expected %v", got, []float64{values[7], values[3]})
	}
	for _, k := range []float64{-1, 2400, 0.5, math.MaxFloat64} {
		bad := params{"fit": fit["fit"], "indices": params{"values": []float64{k}}}
		if err := c.CallResult(t.Context(), "predict", bad, nil); err == nil || !strings.Contains(err.Error(), "indices") {
			t.Errorf("index %g: %v", k, err)
		}
	}
}

// Sixteen requests at once have the results that they have alone, one that fails or is cancelled harms none, and nothing
// is left running.
func TestWorkerServesManyAtOnce(t *testing.T) {
	parallel.For(2*runtime.GOMAXPROCS(0), func(int) { time.Sleep(time.Millisecond) }) // its helpers stay
	before := runtime.NumGoroutine()
	t.Run("requests", func(t *testing.T) {
		started := make(chan struct{}, 1)
		c, _ := dial(t, &jrpc2.ClientOptions{OnNotify: func(r *jrpc2.Request) {
			select {
			case started <- struct{}{}:
			default:
			}
		}})
		e := openDiabetes(t, c, params{"lambda": 20})
		want := timeless(ask(t, c, "fit", params{"estimator": e}))
		long := openDiabetes(t, c, params{"lambda": 20})
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := make(chan error, 1)
		go func() {
			_, err := c.Call(ctx, "sweep", params{"estimator": long, "lambda": "0.01:100:100000", "refine": 0, "chain": 1})
			cancelled <- err
		}()
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				if i%4 == 0 {
					_, err := c.Call(t.Context(), "open", params{"options": params{"problem": "no"}})
					if code := jrpc2.ErrorCode(err); code != jrpc2.InvalidParams {
						t.Errorf("a request that fails: %v", err)
					}
					return
				}
				var found any
				if err := c.CallResult(t.Context(), "fit", params{"estimator": e}, &found); err != nil ||
					!reflect.DeepEqual(timeless(found), want) {
					t.Errorf("request %d: %v, %v, expected %v", i, err, found, want)
				}
			})
		}
		all.Wait()
		select {
		case <-started:
		case <-time.After(10 * time.Second):
		}
		cancel()
		<-cancelled
		ask(t, c, "close", params{"estimator": long})
		// This client may see the end of the answers before it hands on the last one.
		if _, err := c.Call(t.Context(), "shutdown", nil); err != nil && jrpc2.ErrorCode(err) != jrpc2.Cancelled {
			t.Errorf("shutdown: %v", err)
		}
	})
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			text := make([]byte, 1<<20)
			t.Fatalf("%d goroutines are left of %d: %s", runtime.NumGoroutine(), before,
				text[:runtime.Stack(text, true)])
		}
	}
}

// A cancelled request says so within a second, with the status of an interrupted command.
func TestWorkerCancels(t *testing.T) {
	in, to := io.Pipe()
	send := func(text string) {
		fmt.Fprintf(to, "Content-Length: %d\r\n\r\n%s", len(text), text)
	}
	from, answers := io.Pipe()
	go func() {
		worker.Serve(t.Context(), worker.Options{In: in, Out: answers, Directory: t.TempDir(), Request: workerRequest})
		answers.Close()
	}()
	read := channel.Header("")(from, nil)
	send(`{"jsonrpc":"2.0","id":1,"method":"open","params":{"options":{"problem":"lasso","lambda":2,` +
		`"data":"../../testdata/diabetes.npz"}}}`)
	if _, err := read.Recv(); err != nil {
		t.Fatal(err)
	}
	for id, cancel := range map[string]string{
		`"a"`: `{"jsonrpc":"2.0","id":3,"method":"cancel","params":{"id":"a"}}`,
		`7`:   `{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":7}}`,
	} {
		send(`{"jsonrpc":"2.0","id":` + id + `,"method":"sweep","params":{"estimator":"e1","lambda":"0.01:100:100000",` +
			`"refine":0,"chain":1}}`)
		time.Sleep(50 * time.Millisecond)
		send(cancel)
		start := time.Now()
		for {
			text, err := read.Recv()
			if err != nil {
				t.Fatal(err)
			}
			var m struct {
				ID    json.RawMessage
				Error *jrpc2.Error
			}
			if err := json.Unmarshal(text, &m); err != nil {
				t.Fatal(err)
			}
			if string(m.ID) == id {
				if m.Error == nil || m.Error.Code != jrpc2.Cancelled {
					t.Errorf("%.300s, expected that %s is cancelled", text, id)
				}
				break
			}
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("cancelling took %v", took)
		}
	}
	to.Close()
	io.Copy(io.Discard, from)
}

// Bad input is refused with its place, and the worker lives.
func TestWorkerRefusesBadInput(t *testing.T) {
	c, directory := dial(t, nil)
	text := filepath.Join(directory, "..", "text.npy")
	cut := filepath.Join(directory, "..", "cut.npy")
	if err := errors.Join(os.WriteFile(text, []byte("not an array"), 0o600),
		dataio.WriteNPY(cut, floats("y", make([]float64, 100), 100)), os.Truncate(cut, 200)); err != nil {
		t.Fatal(err)
	}
	y := params{"y": params{"values": []float64{1, 2, 3}}}
	for name, q := range map[string]struct {
		method     string
		params     any
		want       string
		code       jrpc2.Code
		field      string
		found, due string
	}{
		"option": {"open", params{"options": params{"lamda": 2}}, `"lamda" (did you mean "lambda"?)`, -32602, "lamda", "", ""},
		"value": {"open", params{"options": params{"problem": "tv1d", "tol": 2}, "arrays": y}, "tol is 2", -32602, "tol",
			"2", "a number between 0 and 1 (at 1, b = 0 would be accepted)"},
		"NaN":    {"open", params{"options": params{"problem": "tv1d", "sigma2": "nan"}, "arrays": y}, "sigma2 is", -32602, "sigma2", "", ""},
		"object": {"open", params{"options": params{"tol": params{}}}, "expected a text, a number", -32602, "tol", "", ""},
		"negative shape": {"open", params{"options": params{"problem": "tv1d"}, "arrays": params{"y": params{
			"shape": []int{-1, -3}, "values": []int{1, 2, 3}}}}, "has the shape", -32602, "y", "", ""},
		"large shape": {"open", params{"options": params{"problem": "tv1d"}, "arrays": params{"y": params{
			"shape": []int{1 << 40, 1 << 40}, "values": []int{1, 2, 3}}}}, "has the shape", -32602, "y", "", ""},
		"no array": {"open", params{"options": params{"problem": "tv1d"}, "arrays": params{"y": params{}}}, "expected one",
			-32602, "y", "", ""},
		"base64": {"open", params{"options": params{"problem": "tv1d"}, "arrays": params{"y": params{
			"base64": "AAAA"}}}, "3 bytes", -32602, "y", "", ""},
		"missing file": {"open", params{"options": params{"problem": "tv1d"}, "arrays": params{"y": params{
			"npy": "/nowhere.npy"}}}, "/nowhere.npy", -32602, "", "", ""},
		"directory": {"open", params{"options": params{"problem": "tv1d"}, "arrays": params{"y": params{
			"npy": directory}}}, "is a directory", -32602, "", "", ""},
		"text file": {"open", params{"options": params{"problem": "tv1d"}, "arrays": params{"y": params{
			"npy": text}}}, "text.npy", -32602, "", "", ""},
		"cut file": {"open", params{"options": params{"problem": "tv1d"}, "arrays": params{"y": params{
			"npy": cut}}}, "cut.npy", -32602, "y", "", ""},
		"cut indices": {"open", params{"options": params{"problem": "matrix-completion"}, "arrays": params{
			"y": params{"values": []int{1}}, "indices": params{"npy": cut}, "shape": params{"values": []int{2, 2}}}},
			"cut.npy", -32602, "cut", "", ""},
		"estimator": {"fit", params{"estimator": "e9"}, "expected one that is open", -32602, "estimator", "", ""},
		"fit":       {"predict", params{"fit": "f9"}, "expected one that is open", -32602, "fit", "", ""},
		"fit file":  {"predict", params{"file": text}, "", -32602, "", "", ""},
		"by":        {"denoise", params{"by": "magic", "arrays": y}, "expected wavelets or tv", -32602, "by", "", ""},
		"list":      {"open", []int{1}, "expected an object", -32602, "", "", ""},
	} {
		_, err := c.Call(t.Context(), q.method, q.params)
		var e *jrpc2.Error
		var about worker.ErrorData
		if !errors.As(err, &e) || e.Code != q.code || !strings.Contains(e.Message, q.want) {
			t.Errorf("%s: %v, expected code %d and %q", name, err, q.code, q.want)
			continue
		}
		if err := json.Unmarshal(e.Data, &about); err != nil || about.Status != 2 || about.Field != q.field ||
			q.due != "" && about.Expected != q.due || q.found != "" && about.Found != q.found {
			t.Errorf("%s: data %s, expected status 2, field %q, found %q, expected %q", name, e.Data, q.field, q.found,
				q.due)
		}
	}
	if ask(t, c, "info", nil)["protocol"] != float64(worker.Protocol) {
		t.Error("the worker does not live")
	}
}

// Large arrays are files on both sides, and those of a function's arguments end with its call. SURE of soft thresholding is
// that of its closed form.
func TestWorkerCallsTheClient(t *testing.T) {
	const n, weight = 1 << 17, 1.5 // a megabyte
	r, y := rand.New(rand.NewPCG(1, 1)), make([]float64, n)
	exact := -float64(n)
	for i := range y {
		y[i] = r.NormFloat64()
		if i%10 == 0 {
			y[i] += 4
		}
		exact += math.Pow(min(math.Abs(y[i]), weight), 2)
		if math.Abs(y[i]) > weight {
			exact += 2
		}
	}
	mine := t.TempDir()
	path := filepath.Join(mine, "y.npy")
	if err := dataio.WriteNPY(path, floats("y", y, n)); err != nil {
		t.Fatal(err)
	}
	var calls int
	c, directory := dial(t, &jrpc2.ClientOptions{OnCallback: func(_ context.Context, r *jrpc2.Request) (any, error) {
		var p worker.Called
		if err := r.UnmarshalParams(&p); err != nil {
			return nil, err
		}
		set, err := dataio.Open(p.Y.NPY)
		if err != nil {
			return nil, err
		}
		defer set.Close()
		name, err := set.Only()
		if err != nil {
			return nil, err
		}
		a, err := set.Floats(name)
		if err != nil {
			return nil, err
		}
		for i, v := range a.Data {
			a.Data[i] = math.Copysign(max(math.Abs(v)-p.Weights["lambda"], 0), v)
		}
		calls++
		answer := filepath.Join(mine, fmt.Sprint(calls, ".npy"))
		return params{"npy": answer}, dataio.WriteNPY(answer, a)
	}})
	found := ask(t, c, "risk", params{"options": params{"lambda": weight, "sigma2": 1, "queries": 4}, "arrays": params{
		"y": params{"npy": path}}, "return": []string{"mu_hat"}})
	result := found["result"].(params)
	sure, bar := result["sure"].(float64), result["divergence_stderr"].(float64)
	if math.Abs(sure-exact) > 2*4*bar || calls < 5 {
		t.Errorf("SURE %g after %d calls, expected %g within %g", sure, calls, exact, 8*bar)
	}
	mu, err := dataio.Open(found["mu_hat"].(params)["npy"].(string))
	if err != nil {
		t.Fatal(err)
	}
	defer mu.Close()
	name, err := mu.Only()
	if err != nil {
		t.Fatal(err)
	}
	if a, err := mu.Floats(name); err != nil || len(a.Data) != n || a.Data[0] != math.Copysign(max(math.Abs(y[0])-
		weight, 0), y[0]) {
		t.Errorf("mu_hat has %d values, %v", len(a.Data), err)
	}
	if files, err := filepath.Glob(filepath.Join(directory, "*", "*")); err != nil || len(files) != 1 {
		t.Errorf("files %q, %v, expected mu_hat alone", files, err)
	}
}

// A client that dies leaves no process and no file, also where its pipe stays open.
func TestWorkerEndsWithItsClient(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /bin/sh, and signals")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	y := make([]float64, 1<<17)
	path := filepath.Join(t.TempDir(), "y.npy")
	if err := dataio.WriteNPY(path, floats("y", y, len(y))); err != nil {
		t.Fatal(err)
	}
	text := `{"jsonrpc":"2.0","id":1,"method":"risk","params":{"options":{"sigma2":1},"arrays":{"y":{"npy":"` + path +
		`"}}}}`
	input := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(text), text)
	request := filepath.Join(t.TempDir(), "request")
	if err := os.WriteFile(request, []byte(input), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		client *exec.Cmd
		dies   bool
		killed bool // the worker itself
	}{
		"its pipe ends": {exec.Command(self, "worker", "--directory", directory), false, false},
		"it is killed":  {exec.Command(self, "worker", "--directory", directory), false, true},
		"killed, its pipe stays open": {exec.Command("/bin/sh", "-c",
			`{ cat "$2"; exec sleep 60; } | "$0" worker --directory "$1" & wait`, self, directory, request), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			c.client.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			stdin, err := c.client.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.client.Start(); err != nil {
				t.Fatal(err)
			}
			defer syscall.Kill(-c.client.Process.Pid, syscall.SIGKILL) // what is left of the group
			if !c.dies {
				io.WriteString(stdin, input)
			}
			wait := func(what string, want int) {
				t.Helper()
				for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
					found, err := filepath.Glob(filepath.Join(directory, "surepipe-*"))
					if len(found) == want && err == nil {
						return
					}
					if time.Now().After(end) {
						t.Fatalf("%s: directories of workers %q, %v", what, found, err)
					}
				}
			}
			wait("the start", 1) // y is there for the client, which does not answer
			next := func() {     // a worker that starts
				err := worker.Serve(t.Context(), worker.Options{In: strings.NewReader(""), Out: io.Discard,
					Directory: directory, Request: workerRequest})
				if err != nil {
					t.Error(err)
				}
			}
			next()
			wait("the start of another", 1)
			if c.dies || c.killed {
				c.client.Process.Kill()
			}
			stdin.Close()
			if err := c.client.Wait(); !c.dies && !c.killed && err != nil {
				t.Errorf("the worker ends with %v", err)
			}
			if c.killed {
				wait("the kill", 1)
				next()
			}
			wait("the end", 0)
		})
	}
}

// The client of the guide works, with numpy and nothing else.
func TestWorkerClientOfTheGuide(t *testing.T) {
	python := "/usr/bin/python3"
	if err := exec.Command(python, "-c", "import numpy").Run(); err != nil {
		t.Skipf("%s with numpy is missing: %v", python, err)
	}
	guide, err := os.ReadFile("../../docs/worker.md")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```python\n(.*?)```").FindAllStringSubmatch(string(guide), -1)
	if len(blocks) != 2 || strings.Count(strings.TrimSpace(blocks[0][1]), "\n") > 45 {
		t.Fatalf("the guide has %d blocks of Python, expected a short client and its use", len(blocks))
	}
	text := blocks[0][1] + strings.Replace(blocks[1][1], "Worker(", "Worker("+fmt.Sprintf("%q, ", self), 1) +
		"\nassert w.process.wait(10) == 0 and not os.path.exists(w.folder.name + '/x')" +
		"\nassert ((w.numpy is not None) and soft['status'] == 0)" +
		"\nassert [f for f in os.listdir(w.folder.name) if not f.endswith('.npy')] == []\n"
	cmd := exec.Command(python, "-c", text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// The schema in docs is that of the types and of the options.
func TestWorkerSchemaIsThatOfTheTypes(t *testing.T) {
	status, found, stderr := command(t, "worker", "--schema")
	committed, err := os.ReadFile("../../docs/worker.schema.json")
	if status != exitDone || err != nil || string(committed) != found {
		t.Errorf("status %d, %s, %v: docs/worker.schema.json is not that of the types: go run ./cmd/surepipe worker "+
			"--schema > docs/worker.schema.json", status, stderr, err)
	}
	var schema struct {
		Methods map[string]struct {
			Params, Result struct{ Properties map[string]any }
		}
		Options map[string]any
	}
	if err := json.Unmarshal(committed, &schema); err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("../../docs/worker.md")
	for name := range schema.Methods {
		if err != nil || !strings.Contains(string(guide), "| `"+name+"` |") {
			t.Errorf("the guide has no method %s, %v", name, err)
		}
	}
	if schema.Methods["fit"].Result.Properties["result"] == nil || schema.Options["lambda"] == nil {
		t.Error("the schema has no result of fit, or no option lambda")
	}
}

// FuzzWorker: whatever is asked, the answer is a result or an error with a text, and the worker lives.
func FuzzWorker(f *testing.F) {
	cut := filepath.Join(f.TempDir(), "cut.npy")
	if err := errors.Join(dataio.WriteNPY(cut, floats("y", make([]float64, 100), 100)), os.Truncate(cut, 200)); err != nil {
		f.Fatal(err)
	}
	infinite := binary.LittleEndian.AppendUint64(nil, math.Float64bits(math.Inf(1)))
	for _, seed := range []struct{ method, params string }{
		{"open", `{"options":{"problem":"lasso","lambda":"0.1max"},"arrays":{"X":{"shape":[3,1],"values":[1,0,2]},"y":{"values":[2,1,3]}}}`},
		{"open", `{"options":{"problem":"tv1d","lambda":1e308,"sigma2":5e-324},"arrays":{"y":{"shape":[3,-1],"values":[2,1,3]}}}`},
		{"open", `{"options":{"problem":"matrix-completion"},"arrays":{"y":{"values":[1]},"indices":{"values":[1e30]},"shape":{"values":[9999999,9999999]}}}`},
		{"sigma2", `{"arrays":{"y":{"base64":"` + fmt.Sprintf("%q", infinite) + `"}}}`},
		{"denoise", `{"by":"tv","arrays":{"y":{"shape":[2,2],"values":[1,2,3,4]}},"options":{"sigma2":"auto"}}`},
		{"denoise_series", `{"arrays":{"data":{"shape":[2,2,2],"values":[1,2,3,4,5,6,7,9]}},"patch":"2x2x1","return":["out"]}`},
		{"audit", `{"estimator":"e1"}`},
		{"risk", `{"arrays":{"y":{"npy":"` + cut + `"}},"options":{"sigma2":1}}`},
		{"predict", `{"file":"` + cut + `","X":{"values":[]}}`},
		{"fit", `{"estimator":"e1","return":["mu_hat"],"out":"/nowhere/x.npz"}`},
		{"close", `{"estimator":"e1","fit":""}`},
		{"cancel", `{"id":{"id":[]}}`},
		{"open", `{"spec":"operator: identity\nregularizer: {l1: lambda}","arrays":{"y":{"values":[1,2]}}}`},
	} {
		f.Add(seed.method, seed.params)
	}
	c, _ := dial(f, &jrpc2.ClientOptions{OnCallback: func(_ context.Context, r *jrpc2.Request) (any, error) {
		return params{"values": []float64{1}}, nil
	}})
	secret := regexp.MustCompile(`"(out|out_second|residual|noise|noise_error|df|risk|rank|removed|exec|data|imaginary|` +
		`phase|sigma|noise_scan|mask|X|y|D|mu|file|npy|spec|memory|queries|max-iter|parallel)"\s*:\s*["\d]`)
	f.Fuzz(func(t *testing.T, method, text string) {
		if method == "shutdown" || !json.Valid([]byte(text)) || secret.MatchString(text) && !strings.Contains(text, cut) {
			t.Skip() // ends the worker, is no request, or writes and reads files
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Call(ctx, method, json.RawMessage(text))
		if err != nil && len(err.Error()) < 5 {
			t.Errorf("%s: %q", method, err)
		}
		if _, err := c.Call(t.Context(), "info", nil); err != nil {
			t.Fatalf("after %s %s: %v", method, text, err)
		}
	})
}

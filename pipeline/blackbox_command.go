package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/stored"
)

// Command is a program that is an estimator: it reads y as a numpy .npy array of float64 from its
// standard input, and writes mu_hat, of the same shape and any real type, to its standard output in
// the same format. It runs once for each value, several at a time, and must give the same answer
// each time.
type Command struct {
	// Args are the program and its arguments. In each, "{lambda}" is replaced by the weight of that
	// name, in digits that give the same float64 again, and so for all Weights.
	Args []string
	// Weights names the weights, in the order in which [BlackBox].Eval takes them.
	Weights []string
	// Shape is the shape of y, and of mu_hat.
	Shape   []int
	Timeout time.Duration
}

// CommandError is the failure of one run of a command.
type CommandError struct {
	// Args are the program and its arguments, with the weights.
	Args []string
	// Reason says what happened, and Stderr holds the last lines of the program's standard error.
	Reason, Stderr string
	Err            error
}

// Error is one line, and the last lines of the program's standard error after it.
func (e *CommandError) Error() string {
	text := fmt.Sprintf("command %s: %s", quoted(e.Args), e.Reason)
	if e.Stderr != "" {
		text += "; its standard error ends:\n    " + strings.ReplaceAll(e.Stderr, "\n", "\n    ")
	}
	return text
}

// Unwrap is the error of package os/exec, if there is one.
func (e *CommandError) Unwrap() error { return e.Err }

// quoted is a command line of the arguments, for messages.
func quoted(args []string) string {
	words := make([]string, len(args))
	for i, a := range args {
		if words[i] = a; a == "" || strings.ContainsAny(a, " \t\n'\"\\") {
			words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// SplitCommand splits a command line into words, like a shell but without its substitutions: blanks
// separate words; between single quotes everything is taken as it is; between double quotes \" and
// \\ stand for " and \; elsewhere \ takes the next character as it is. For pipes, variables and so
// on name a shell: sh -c '...'.
func SplitCommand(line string) (words []string, err error) {
	var word strings.Builder
	inWord, quote := false, rune(0)
	text := []rune(line)
	for i := 0; i < len(text); i++ {
		c := text[i]
		escaped := c == '\\' && quote != '\'' && i+1 < len(text) &&
			(quote == 0 || text[i+1] == '"' || text[i+1] == '\\')
		switch {
		case escaped:
			i++
			word.WriteRune(text[i])
			inWord = true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case c == ' ' || c == '\t' || c == '\n':
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("the command %s has a quote %c without its end", line, quote)
	}
	if inWord {
		words = append(words, word.String())
	}
	if len(words) == 0 {
		return nil, errors.New("the command is empty, expected a program and its arguments")
	}
	return words, nil
}

// BlackBox is the command as a black box of y of that shape. It is an error if the program is not
// found, or if its arguments and Weights do not name the same weights.
func (c Command) BlackBox() (*BlackBox, error) {
	if len(c.Args) == 0 {
		return nil, errors.New("pipeline: a command without a program")
	}
	d := 1
	for _, n := range c.Shape {
		if n < 1 {
			return nil, fmt.Errorf("pipeline: y of shape %v, expected positive sizes", c.Shape)
		}
		d *= n
	}
	for _, name := range c.Weights {
		if !slices.ContainsFunc(c.Args, func(a string) bool { return strings.Contains(a, "{"+name+"}") }) {
			return nil, fmt.Errorf("the command %s has no {%s}, expected one where the weight goes", quoted(c.Args),
				name)
		}
	}
	if _, err := exec.LookPath(c.Args[0]); err != nil && !errors.Is(err, exec.ErrDot) {
		return nil, fmt.Errorf("the command %s: %w", quoted(c.Args), bare(err))
	}
	return &BlackBox{Name: "command " + quoted(c.Args), D: d, Eval: c.run}, nil
}

// bare is the cause of an error of package exec, which repeats the name.
func bare(err error) error {
	if e := (*exec.Error)(nil); errors.As(err, &e) {
		err = e.Err
	}
	return stored.Bare(err)
}

const (
	// mostHeader is the largest header of an answer, and a value takes at most mostValue bytes.
	mostHeader = 64 << 10
	mostValue  = 16
	// tail is the length of the part of the standard error that is kept.
	tail = 2 << 10
	// endGrace is how long output is read after a program has ended or been killed.
	endGrace = 500 * time.Millisecond
)

func (c Command) run(ctx context.Context, weights, y []float64) ([]float64, error) {
	args := slices.Clone(c.Args)
	for i, a := range args {
		for k, name := range c.Weights {
			a = strings.ReplaceAll(a, "{"+name+"}", strconv.FormatFloat(weights[k], 'g', -1, 64))
		}
		args[i] = a
	}
	var input bytes.Buffer
	if err := dataio.EncodeNPY(&input, dataio.Array{Name: "y", Shape: c.Shape, Data: y}); err != nil {
		return nil, err
	}
	outer := ctx
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	output, messages := &bounded{most: mostHeader + mostValue*len(y)}, &lastBytes{}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &input, output, messages
	cmd.WaitDelay = endGrace
	inGroup(cmd)
	err := cmd.Run()
	fail := func(cause error, format string, values ...any) ([]float64, error) {
		return nil, &CommandError{Args: args, Reason: fmt.Sprintf(format, values...), Stderr: messages.String(),
			Err: cause}
	}
	switch {
	case outer.Err() != nil:
		return nil, outer.Err()
	case ctx.Err() != nil:
		return fail(ctx.Err(), "took longer than the time limit, %v, and was killed", c.Timeout)
	case output.over:
		return fail(nil, "wrote more than %d bytes, expected a .npy array of shape %s", output.most,
			ndarray.ShapeString(c.Shape))
	case errors.Is(err, exec.ErrWaitDelay):
		return fail(err, "ended, but a process that it has started keeps its standard output open")
	case err != nil:
		return fail(err, "%v", err)
	}
	return c.answer(output.text, fail)
}

func (c Command) answer(text []byte, fail func(error, string, ...any) ([]float64, error)) ([]float64, error) {
	const expected = "expected mu_hat as a .npy array of real numbers, of shape %s"
	if len(text) == 0 {
		return fail(nil, "wrote nothing, "+expected, ndarray.ShapeString(c.Shape))
	}
	a, err := dataio.DecodeNPY("mu_hat", text)
	if err != nil {
		return fail(err, "%v; "+expected, err, ndarray.ShapeString(c.Shape))
	}
	if !slices.Equal(a.Shape, c.Shape) {
		return fail(nil, "wrote an array of shape %s, "+expected, ndarray.ShapeString(a.Shape),
			ndarray.ShapeString(c.Shape))
	}
	if err := a.CheckFinite(); err != nil {
		return fail(err, "%v", err)
	}
	return a.Data, nil
}

// bounded keeps what is written, up to a bound.
type bounded struct {
	text []byte
	most int
	over bool
}

// Write is an error beyond the bound, which closes the program's output.
func (b *bounded) Write(p []byte) (int, error) {
	if len(b.text)+len(p) > b.most {
		b.over = true
		return 0, io.ErrShortWrite
	}
	b.text = append(b.text, p...)
	return len(p), nil
}

// lastBytes keeps the end of what is written.
type lastBytes struct{ text []byte }

func (l *lastBytes) Write(p []byte) (int, error) {
	l.text = append(l.text, p...)
	if len(l.text) > 2*tail {
		l.text = append(l.text[:0], l.text[len(l.text)-tail:]...)
	}
	return len(p), nil
}

func (l *lastBytes) String() string {
	const most = 6
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(l.text[max(len(l.text)-tail, 0):]), "?")), "\n")
	return strings.Join(lines[max(len(lines)-most, 0):], "\n")
}

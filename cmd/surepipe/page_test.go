package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"surepipe/internal/dataio"
	"surepipe/study"
)

// hostile are names that would be markup, end a script or a text, or turn the direction of what follows.
var hostile = []string{`<script>document.title="taken"</script>`, `</script><img src=x onerror="document.title='taken'">`,
	`it's "quoted" & <b>bold</b>`, "\u202eשלום עולם"}

// hostileTable writes a table with such names.
func hostileTable(t *testing.T) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	for _, name := range hostile {
		fmt.Fprintf(&text, "\"%s\",", strings.ReplaceAll(name, `"`, `""`))
	}
	text.WriteString("price\n")
	for range 60 {
		y := rng.NormFloat64()
		for j := range hostile {
			x := rng.NormFloat64()
			y += float64(j+1) * x
			fmt.Fprintf(&text, "%g,", x)
		}
		fmt.Fprintf(&text, "%g\n", y)
	}
	path := filepath.Join(t.TempDir(), "a<b>.csv")
	if err := os.WriteFile(path, []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// pageOf runs the program with --report, and returns the address of the page.
func pageOf(t *testing.T, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.html")
	if status, _, stderr := command(t, append(args, "--report", path)...); status != exitDone {
		t.Fatalf("surepipe %s: status %d, %s", strings.Join(args, " "), status, stderr)
	}
	return "file://" + path
}

// noisySquare is a square of two levels with noise.
func noisySquare(n int) []float64 {
	rng := rand.New(rand.NewPCG(3, 4))
	y := make([]float64, n*n)
	for i := range y {
		y[i] = 0.2 * rng.NormFloat64()
		if i%n > n/3 && i/n > n/2 {
			y[i]++
		}
	}
	return y
}

// canvases are the pixels of all pictures, as texts.
const canvases = "[...document.querySelectorAll('canvas.picture')].map(c => c.toDataURL())"

// The page of a table asks for nothing, its slider and keys move numbers and coefficients, and names of columns are text.
func TestPageOfATable(t *testing.T) {
	b := openBrowser(t, 1200, 900, "light")
	page := pageOf(t, "sweep", "--problem", "lasso", "--data", hostileTable(t), "--response", "price", "--lambda",
		"0.05max:max:12", "--sigma2", "1", "--rule", "1se")
	b.open(page)
	if got := b.outside(page); len(got) > 0 {
		t.Errorf("the page asks for %q", got)
	}
	if got := b.text("document.title"); got != "lasso · a<b>.csv" {
		t.Errorf("the title is %q", got)
	}
	if n := b.eval("document.images.length + document.scripts.length"); n != 2.0 {
		t.Errorf("the page has %v scripts and images, expected its data and its own script", n)
	}
	names := "[...document.querySelectorAll('.coefficients bdi')].map(e => e.textContent)"
	b.eval("go(0)")
	found := b.text(names + ".sort().join('\\n')")
	if want := slices.Sorted(slices.Values(hostile)); found != strings.Join(want, "\n") {
		t.Errorf("the names are %q, expected %q", found, want)
	}
	at := func() string { return b.text("document.getElementById('readout').textContent") }
	low := at()
	b.press("ArrowRight")
	if at() == low || !strings.Contains(at(), "df") {
		t.Errorf("after a key the page says %q, before %q", at(), low)
	}
	b.eval("slider.value = slider.max; slider.dispatchEvent(new Event('input'))")
	if n := b.eval(names + ".length"); n != 0.0 || !strings.Contains(at(), "df 1 ") {
		t.Errorf("at the largest weight %v coefficients are shown, and %q", n, at())
	}
	b.press("m")
	if !strings.Contains(at(), "minimum") {
		t.Errorf("at the minimum the page says %q", at())
	}
	var summary study.SweepSummary
	if err := json.Unmarshal([]byte(b.text("JSON.stringify(model.summary)")), &summary); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("λ = %.4g", float64(*summary.Minimizer.Lambda)); !strings.Contains(at(), want) {
		t.Errorf("at the minimum the page says %q, expected %q", at(), want)
	}
	// What is unpacked are y and the fits: their distances are the residuals of the lines.
	if worst := b.eval(`Math.max(...model.order.map(k => { const p = model.points.get(k), y = numbers(frame("data"));
		const e = minus(y, numbers(frame("fit", p))); return Math.abs(e.reduce((s, v) => s + v * v, 0) / p.residual - 1); }))`,
	); worst.(float64) > 1e-2 {
		t.Errorf("the residuals of what the page shows are off by a share of %g", worst)
	}
	if paths := b.eval("built.length"); paths.(float64) < 6 {
		t.Errorf("the page has %v panels", paths)
	}
	if wide := b.eval("document.documentElement.scrollWidth - innerWidth"); wide.(float64) > 0 {
		t.Errorf("the page is %v pixels wider than its window", wide)
	}
}

// Coefficients are drawn times the standard deviations of the columns that a fit divides by them, so that a column in
// large units is as high as others; the table has both. The command is the one that makes the page, without the names of
// other files.
func TestPageDrawsStandardizedCoefficients(t *testing.T) {
	rng, table := rand.New(rand.NewPCG(6, 6)), "a,b,y\n"
	for range 60 {
		a, b := rng.NormFloat64(), rng.NormFloat64()
		table += fmt.Sprintf("%g,%g,%g\n", a, 1e6*b, a+b+0.1*rng.NormFloat64())
	}
	data, b := text(t, "units.csv", table), openBrowser(t, 1200, 900, "light")
	for _, c := range []struct{ standardize, drawn, head string }{
		{"--standardize", "true true", "coefficient× s.d."},
		{"--standardize=false", "false false", ""},
	} {
		b.open(pageOf(t, "sweep", "--problem", "lasso", "--data", data, "--response", "y", "--lambda", "0.05max:max:6",
			c.standardize, "--path", filepath.Join(t.TempDir(), "path.csv")))
		b.eval("go(0)")
		drawn := b.text("['a', 'b'].map(n => ofName(current(), n, sizeOf)).map(v => v > 0.7 && v < 1.4).join(' ')")
		head := b.text("[...document.querySelectorAll('.coefficients th')].map(e => e.textContent).join('')")
		if drawn != c.drawn || head != c.head {
			t.Errorf("%s: %q near 1, and the head %q", c.standardize, drawn, head)
		}
		if line := b.text("doc.command"); strings.Contains(line, "--path") || !strings.Contains(line, c.standardize) {
			t.Errorf("the command is %q", line)
		}
	}
}

// A drag across a curve zooms all curves to the weights between its ends and a double click shows all again, a click
// moves; buttons copy what they stand beside; in print the page has light colours and no buttons.
func TestPageZoomsCopiesAndPrints(t *testing.T) {
	b := openBrowser(t, 1200, 900, "dark")
	b.open(pageOf(t, "sweep", "--problem", "lasso", "--data", hostileTable(t), "--response", "price", "--lambda",
		"0.05max:max:12", "--sigma2", "1"))
	mouse := func(kind string, x, y float64, clicks int) {
		b.call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": x, "y": y, "button": "left",
			"buttons": map[bool]int{kind != "mouseReleased" && clicks > 0: 1}[true], "clickCount": clicks})
	}
	frame := b.eval("(() => { const r = document.querySelector('.u-over').getBoundingClientRect();" +
		" return [r.left, r.top, r.width, r.height]; })()").([]any)
	at := func(share float64) (x, y float64) {
		return frame[0].(float64) + share*frame[2].(float64), frame[1].(float64) + frame[3].(float64)/2
	}
	click := func(share float64, times int) {
		x, y := at(share)
		mouse("mouseMoved", x, y, 0)
		for i := range times {
			mouse("mousePressed", x, y, i+1)
			mouse("mouseReleased", x, y, i+1)
		}
	}
	const here = "model.at"
	// The ends of what is shown, as shares of the logarithm of the weights.
	const ends = "(w => model.zoom && model.zoom.map(v => Math.log(v / w[0]) / Math.log(w.at(-1) / w[0])))(atAll(weightOf))"
	click(0.97, 1)
	if got := b.eval(here); got != b.eval("model.order.length - 1") {
		t.Errorf("a click at the right end moves to point %v", got)
	}
	x, y := at(0.2)
	mouse("mouseMoved", x, y, 0)
	mouse("mousePressed", x, y, 1)
	x, y = at(0.6)
	mouse("mouseMoved", x, y, 1)
	mouse("mouseReleased", x, y, 1)
	zoom, _ := b.eval(ends).([]any)
	if len(zoom) != 2 || math.Abs(zoom[0].(float64)-0.2) > 0.04 || math.Abs(zoom[1].(float64)-0.6) > 0.04 {
		t.Errorf("a drag over 0.2 to 0.6 of the weights shows %v", zoom)
	}
	if got := b.eval(here); got != b.eval("model.order.length - 1") {
		t.Errorf("a drag moves to point %v", got)
	}
	click(0.5, 2)
	if got := b.eval(ends); got != nil {
		t.Errorf("after a double click the curves show %v", got)
	}
	// The browser's own clipboard may wait for its window or for other programs: the page's calls of it are noted.
	b.eval(`window.calls = []; navigator.clipboard.writeText = async (text) => { calls.push(text);` +
		` if (calls.length > 1) throw new Error("refused"); };` +
		` document.execCommand = (what) => calls.push(what + " " + getSelection());`)
	const note = "document.querySelector('p > [role=status]').textContent"
	want := b.text("doc.command")
	for _, calls := range []string{want, want + "\n" + want + "\ncopy " + want} {
		b.eval(note + " = ''; document.querySelector('button.copy').click()")
		b.until(note + " === ' copied'")
		if got := b.text("calls.join('\\n')"); got != calls || len(want) < 20 {
			t.Errorf("copied is %q, expected %q", got, calls)
		}
	}
	b.call("Emulation.setEmulatedMedia", map[string]any{"media": "print"})
	b.eval("dispatchEvent(new Event('beforeprint'))")
	if got := b.text("getComputedStyle(document.body).backgroundColor"); got != "rgb(255, 255, 255)" {
		t.Errorf("in print the background is %s", got)
	}
	if got := b.text("[...document.querySelectorAll('button.copy, nav .buttons')].map(e => getComputedStyle(e).display)" +
		".join()"); strings.ReplaceAll(strings.ReplaceAll(got, "none", ""), ",", "") != "" {
		t.Errorf("in print the buttons are displayed as %s", got)
	}
	pdf, err := base64.StdEncoding.DecodeString(b.call("Page.printToPDF", nil)["data"].(string))
	if err != nil || !bytes.HasPrefix(pdf, []byte("%PDF")) || len(pdf) < 20000 {
		t.Errorf("printed are %d bytes, %v", len(pdf), err)
	}
}

// The pages of an image, a completion and two weights: the slider changes pictures, blinking shows the held one.
func TestPageOfPictures(t *testing.T) {
	b := openBrowser(t, 390, 800, "dark")
	image := save(t, floats("y", noisySquare(40), 40, 40))
	for name, c := range map[string]struct {
		args     []string
		pictures float64
	}{
		"image": {[]string{"sweep", "--problem", "tv2d", "--data", image, "--sigma2", "0.04", "--lambda", "0.02:2:6"}, 4},
		"completion": {[]string{"sweep", "--problem", "matrix-completion", "--data", "../../testdata/mc60x40.npz",
			"--lambda", "0.1max:max:5", "--refine", "0"}, 3},
		"two weights": {[]string{"sweep", "--problem", "robust-pca", "--data", "../../testdata/rpca40.npz", "--lambda",
			"0.1max:max:3", "--gamma", "0.1max:max:3", "--refine", "0"}, 4},
	} {
		b.requests = nil
		page := pageOf(t, c.args...)
		b.open(page)
		if got := b.outside(page); len(got) > 0 {
			t.Errorf("%s: the page asks for %q", name, got)
		}
		if n := b.eval(canvases + ".length"); n != c.pictures {
			t.Fatalf("%s: %v pictures, expected %v", name, n, c.pictures)
		}
		estimate := canvases + "[1]"
		b.eval("go(0)")
		first := b.text(estimate)
		b.press("h")
		b.eval("go(model.order.length - 1)")
		last := b.text(estimate)
		if first == last {
			t.Errorf("%s: the estimate is the same picture at the ends of the grid", name)
		}
		b.press("b")
		b.until(estimate + " === " + fmt.Sprintf("%q", first))
		b.until(estimate + " === " + fmt.Sprintf("%q", last))
		b.press("b")
		if wide := b.eval("document.documentElement.scrollWidth - innerWidth"); wide.(float64) > 0 {
			t.Errorf("%s: the page is %v pixels wider than a phone", name, wide)
		}
	}
	if r, _, _, _ := b.shot().At(2, 2).RGBA(); r > 1<<14 {
		t.Errorf("where dark is preferred the page's red is %d of 65535", r)
	}
}

// A tall matrix is no strip, its estimate has the effects, charts fit a narrow window, and advice stands once.
func TestPageOfATallMatrix(t *testing.T) {
	rng, y := rand.New(rand.NewPCG(3, 3)), make([]float64, 200*6)
	for i := range 200 {
		row := 3 * rng.NormFloat64()
		for j := range 6 {
			y[6*i+j] = row + float64(j) + 0.1*rng.NormFloat64()
			if rng.Float64() < 0.25 {
				y[6*i+j] = math.NaN()
			}
		}
	}
	b := openBrowser(t, 390, 800, "light")
	b.open(pageOf(t, "sweep", "--problem", "matrix-completion", "--data", save(t, floats("y", y, 200, 6)), "--lambda",
		"0.2max:max:4", "--refine", "0"))
	const shape = `(({ clientHeight: h, clientWidth: w }) => h / w)(document.querySelector("canvas.picture"))`
	if ratio := b.eval(shape); ratio.(float64) > 2.5 {
		t.Errorf("a matrix of 200 x 6 is drawn %v times as high as wide", ratio)
	}
	residual := b.eval(`quantile(minus(numbers(frame("data")), numbers(frame("fit", model.points.get(0))))` +
		`.map(Math.abs), 0.99)`)
	if residual.(float64) > 1 {
		t.Errorf("the residual of the picture is up to %v: it has no effects", residual)
	}
	const wide = `Math.max(...[...document.querySelectorAll(".uplot")].map(` +
		`(u) => u.offsetWidth - u.parentNode.clientWidth))`
	if over := b.eval(wide); over.(float64) > 0 {
		t.Errorf("a chart is %v pixels wider than its panel", over)
	}
	advice := b.eval(`warningList([{code: "edge-of-grid", text: "at the edge"}, {code: "edge-of-grid", text: "again"}, ` +
		`{code: "float32", text: "x"}]).textContent.split("To do").length - 1`)
	if advice != 1. {
		t.Errorf("the advice stands %v times", advice)
	}
}

// A merged sweep has the pictures and lines of one machine's, and a page of its own.
func TestShardsKeepWhatAPageShows(t *testing.T) {
	run := append(shardedSweeps()["one weight"], "--report", filepath.Join(t.TempDir(), "whole.html"))
	whole := filepath.Join(t.TempDir(), "whole.jsonl")
	if status, _, stderr := command(t, append(run, "--jsonl", whole)...); status != exitDone {
		t.Fatal(stderr)
	}
	merged, files := withShards(t, run, 3)
	page := filepath.Join(t.TempDir(), "merged.html")
	if status, _, stderr := mergeFiles(t, files, "--jsonl", merged, "--report", page); status != exitDone {
		t.Fatal(stderr)
	}
	lines := linesOf(t, whole)
	if !slices.Equal(linesOf(t, merged), lines) || !strings.Contains(lines[1], `"look":{"data":`) {
		t.Errorf("the merged file differs from one machine's, or its lines keep nothing: %.300s", lines[1])
	}
	data := regexp.MustCompile(`"packs":.*?</script>`)
	text := func(path string) string {
		all, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data.FindString(string(all))
	}
	if a, b := text(run[len(run)-1]), text(page); a != b || len(a) < 1000 {
		t.Errorf("the pictures of a merged sweep are %.200s, expected %.200s", b, a)
	}
}

// view shows a sweep while its file grows, answers its own address alone, and ends with its context.
func TestViewFollowsAFile(t *testing.T) {
	b := openBrowser(t, 1000, 800, "light")
	done := filepath.Join(t.TempDir(), "done.jsonl")
	if status, _, stderr := command(t, "sweep", "--problem", "tv2d", "--data", save(t, floats("y", noisySquare(24), 24, 24)),
		"--sigma2", "0.04", "--lambda", "0.02:2:6", "--jsonl", done, "--report", done+".html"); status != exitDone {
		t.Fatal(stderr)
	}
	lines := strings.SplitAfter(string(mustRead(t, done)), "\n")
	growing := filepath.Join(t.TempDir(), "growing.jsonl")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	from, to := io.Pipe()
	status := make(chan int)
	go func() { status <- execute(ctx, []string{"view", growing}, to, io.Discard) }()
	var url string
	if _, err := fmt.Fscanln(from, &url); err != nil {
		t.Fatal(err)
	}
	b.open(url)
	add := func(text string) {
		f, err := os.OpenFile(growing, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
		if err == nil {
			_, err = f.WriteString(text)
			f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	add(strings.Join(lines[:4], "") + lines[4][:20])
	b.until("document.getElementById('live').textContent === 'live: 3 of 6 points of the grid'")
	b.until(canvases + ".length === 4")
	add(lines[4][20:] + strings.Join(lines[5:], ""))
	b.until("document.getElementById('live').textContent === 'complete'")
	b.until("document.getElementById('readout').textContent.includes('minimum')")
	for _, asked := range b.requests {
		if !strings.HasPrefix(asked, url) && !strings.HasPrefix(asked, "data:") {
			t.Errorf("the page asks for %q", asked)
		}
	}
	cancel()
	select {
	case s := <-status:
		if s != exitDone {
			t.Errorf("at the end the status is %d", s)
		}
	case <-time.After(time.Second):
		t.Error("view does not end within a second")
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// view refuses requests by other names and for other things, and files that are no run's.
func TestViewRefusesOthers(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	from, to := io.Pipe()
	var said strings.Builder // before the address is
	go execute(ctx, []string{"view", filepath.Join(t.TempDir(), "none.jsonl")}, to, &said)
	var url string
	if _, err := fmt.Fscanln(from, &url); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "none.jsonl does not exist: waiting for it") {
		t.Errorf("said of a file that is not there: %q", said.String())
	}
	for _, c := range []struct {
		method, path, host, site string
		want                     int
	}{
		{"GET", "", "", "", http.StatusOK},
		{"GET", "", "evil.example", "", http.StatusForbidden},
		{"GET", "", "127.0.0.1:1", "", http.StatusForbidden},
		{"GET", "events", "evil.example", "", http.StatusForbidden},
		{"GET", "events", "", "cross-site", http.StatusForbidden},
		{"GET", "none.jsonl", "", "", http.StatusNotFound},
		{"GET", "../go.mod", "", "", http.StatusNotFound},
		{"POST", "", "", "", http.StatusMethodNotAllowed},
	} {
		r, err := http.NewRequest(c.method, url+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = c.host
		if c.site != "" {
			r.Header.Set("Sec-Fetch-Site", c.site)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != c.want {
			t.Errorf("%s %q of %q, %q: %d, expected %d", c.method, c.path, c.host, c.site, answer.StatusCode, c.want)
		}
	}
	for path, want := range map[string]string{"../../go.mod": "does not begin with the header of a run"} {
		if status, _, stderr := command(t, "view", path); status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("view %s: status %d, %q", path, status, stderr)
		}
	}
	status, _, stderr := command(t, "run", "--problem", "lasso", "--data", "../../testdata/diabetes.npz", "--report",
		"page.pdf")
	if status != exitUsage || !strings.Contains(stderr, `--report is "page.pdf", expected a name that ends in .html`) {
		t.Errorf("status %d, %q", status, stderr)
	}
}

// Every problem that generate makes has a page: of one estimate, and of many samples.
func TestPagesOfRunsAndSamples(t *testing.T) {
	image := save(t, floats("y", noisySquare(16), 16, 16))
	sequence := save(t, dataio.Array{Name: "y", Shape: []int{60}, Data: noisySquare(8)[:60]})
	for _, args := range []string{
		"run --problem lasso --data ../../testdata/diabetes.npz --lambda 20",
		"run --problem tv1d --sigma2 0.04 --lambda 0.5 --data " + sequence,
		"run --problem svt --sigma2 0.04 --lambda 1 --data " + image,
		"montecarlo --problem matrix-completion --data ../../testdata/mc60x40.npz --lambda 0.3max --samples 3",
	} {
		page := strings.TrimPrefix(pageOf(t, strings.Fields(args)...), "file://")
		text := string(mustRead(t, page))
		if !strings.Contains(text, `"records":[{`) || strings.Contains(text, "{{") {
			t.Errorf("surepipe %s: the page has no results", args)
		}
		if run := strings.HasPrefix(args, "run"); run && !strings.Contains(text, `"packs":{"data":[{"kind"`) {
			t.Errorf("surepipe %s: the page has no pictures", args)
		}
	}
}

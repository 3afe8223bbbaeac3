package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// browser is a page in Chromium, which is driven over pipes by the DevTools protocol.
type browser struct {
	t        *testing.T
	to       io.Writer
	from     *bufio.Reader
	id       int
	session  string
	requests []string // the addresses that the page asked for
}

// openBrowser opens a browser with a window of the size, in a scheme of colours, light or dark. Without one the test is
// skipped.
func openBrowser(t *testing.T, width, height int, scheme string) *browser {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		t.Skip("no Chromium or Chrome is on the path, in which pages are looked at: apt-get install chromium")
	}
	toChild, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, fromChild, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	profile, err := os.MkdirTemp("", "browser-")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--user-data-dir="+profile)
	cmd.ExtraFiles = []*os.File{toChild, fromChild}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	toChild.Close()
	fromChild.Close()
	t.Cleanup(func() {
		to.Close()
		from.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		// The browser's other processes end a little later, and write into its profile until then.
		for end := time.Now().Add(10 * time.Second); os.RemoveAll(profile) != nil && time.Now().Before(end); {
			time.Sleep(50 * time.Millisecond)
		}
	})
	b := &browser{t: t, to: to, from: bufio.NewReaderSize(from, 1<<20)}
	target := b.call("Target.createTarget", map[string]any{"url": "about:blank"})["targetId"]
	b.session = b.call("Target.attachToTarget", map[string]any{"targetId": target, "flatten": true})["sessionId"].(string)
	for _, domain := range []string{"Network.enable", "Page.enable", "Runtime.enable"} {
		b.call(domain, nil)
	}
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1,
		"mobile": width < 500})
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme",
		"value": scheme}}})
	return b
}

// open opens an address, and waits until the page has drawn all.
func (b *browser) open(url string) {
	b.t.Helper()
	b.call("Page.navigate", map[string]any{"url": url})
	b.until("document.body && document.body.dataset.ready === 'yes' && location.href === " + fmt.Sprintf("%q", url))
}

// call sends a command and returns its result. Requests that the page makes meanwhile are noted.
func (b *browser) call(method string, params map[string]any) map[string]any {
	b.t.Helper()
	b.id++
	if params == nil {
		params = map[string]any{}
	}
	text, err := json.Marshal(map[string]any{"id": b.id, "method": method, "params": params, "sessionId": b.session})
	if b.session == "" {
		text, err = json.Marshal(map[string]any{"id": b.id, "method": method, "params": params})
	}
	if err == nil {
		_, err = b.to.Write(append(text, 0))
	}
	for err == nil {
		if text, err = b.from.ReadBytes(0); err != nil {
			break
		}
		var m struct {
			ID     int
			Method string
			Params struct{ Request struct{ URL string } }
			Result map[string]any
			Error  *struct{ Message string }
		}
		if err = json.Unmarshal(text[:len(text)-1], &m); err != nil {
			break
		}
		if m.Method == "Network.requestWillBeSent" {
			b.requests = append(b.requests, m.Params.Request.URL)
		}
		if m.ID == b.id && m.Error != nil {
			err = errors.New(m.Error.Message)
		} else if m.ID == b.id {
			return m.Result
		}
	}
	b.t.Fatalf("%s: %v", method, err)
	return nil
}

// eval is the value of an expression in the page.
func (b *browser) eval(expression string) any {
	b.t.Helper()
	r := b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true})
	if e := r["exceptionDetails"]; e != nil {
		b.t.Fatalf("%s: %v", expression, e)
	}
	return r["result"].(map[string]any)["value"]
}

// text is that of an expression.
func (b *browser) text(expression string) string {
	b.t.Helper()
	return fmt.Sprint(b.eval(expression))
}

// until waits for a condition.
func (b *browser) until(condition string) {
	b.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if b.eval("Boolean("+condition+")") == true {
			return
		}
	}
	b.t.Fatalf("after 30 s not %s: %v", condition, b.eval("document.body.innerText"))
}

// press presses a key.
func (b *browser) press(key string) {
	b.t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		b.call("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": key, "code": key,
			"windowsVirtualKeyCode": map[string]int{"ArrowLeft": 37, "ArrowRight": 39}[key]})
	}
}

// shot is a picture of the whole page.
func (b *browser) shot() image.Image {
	b.t.Helper()
	r := b.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true})
	data, err := base64.StdEncoding.DecodeString(r["data"].(string))
	if err != nil {
		b.t.Fatal(err)
	}
	m, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		b.t.Fatal(err)
	}
	return m
}

// outside are the requests that leave the page: not the page itself, nor what is written in it.
func (b *browser) outside(page string) (all []string) {
	for _, url := range b.requests {
		if url != page && !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, "blob:") {
			all = append(all, url)
		}
	}
	return all
}

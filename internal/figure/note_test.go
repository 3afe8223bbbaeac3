package figure

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file with notes is still a valid picture, and has them as text.
func TestFilesCarryNotes(t *testing.T) {
	f := Running{Title: "a", Label: "b", Values: []float64{1, 2, 3, 4}}
	notes := []Note{{"Command", "surepipe sweep --data 'a <b>&c.csv'"}, {"Software", "surepipe v1"}}
	for _, format := range Formats() {
		path := filepath.Join(t.TempDir(), "a."+format)
		if err := Save(path, f, notes...); err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want := "surepipe sweep --data 'a <b>&c.csv'"
		switch format {
		case "png":
			if _, err := png.Decode(bytes.NewReader(file)); err != nil {
				t.Error(err)
			}
		case "svg":
			want = "Command: surepipe sweep --data &#39;a &lt;b&gt;&amp;c.csv&#39;"
			d := xml.NewDecoder(bytes.NewReader(file))
			for err == nil {
				_, err = d.Token()
			}
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
		}
		if !strings.Contains(string(file), want) || !strings.Contains(string(file), "surepipe v1") {
			t.Errorf("%s: no notes", format)
		}
	}
}

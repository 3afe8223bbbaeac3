package figure

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgpdf"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Figure is one of the figures of this package.
type Figure interface {
	// plan checks the numbers and lays the figure out.
	plan() (*drawing, error)
}

// drawing is a figure after layout: all sizes are known, nothing is drawn yet.
type drawing struct {
	height vg.Length
	draw   func(*canvas)
}

// The width of every figure, 900 pixels at 120 per inch.
const pageWidth vg.Length = 540

const (
	pageDPI = 120
	// vectorDPI is the resolution of the images inside an SVG or PDF.
	vectorDPI = 360
)

// Formats lists the formats that [Write] knows, each also the extension of a file.
func Formats() []string { return []string{"png", "svg", "pdf"} }

// Format is the format for the extension of a file's name, in upper or lower case. The error names
// the possible ones.
func Format(path string) (string, error) {
	ext := filepath.Ext(path)
	format := strings.ToLower(strings.TrimPrefix(ext, "."))
	for _, known := range Formats() {
		if format == known {
			return known, nil
		}
	}
	if ext == "" {
		return "", fmt.Errorf("figure %q has no extension, expected one of .%s", path, strings.Join(Formats(), ", ."))
	}
	return "", fmt.Errorf("figure %q ends in %q, expected one of .%s", path, ext, strings.Join(Formats(), ", ."))
}

// Save writes the figure to a file whose name ends in .png, .svg or .pdf, with notes that are not seen.
// An existing file is replaced when the new one is complete, and otherwise unchanged.
func Save(path string, f Figure, notes ...Note) (err error) {
	format, err := Format(path)
	if err != nil {
		return err
	}
	var picture bytes.Buffer
	if err := Write(&picture, format, f); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("figure %q: %w", path, err)
		}
	}()
	target := path
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		target = resolved
	}
	// The rename would replace a device by a file.
	if info, err := os.Stat(target); err == nil && !info.Mode().IsRegular() {
		return errors.New("it exists and is not a regular file")
	}
	// os.CreateTemp would make the file readable only by its owner.
	var file *os.File
	for i := range 100 {
		name := filepath.Join(filepath.Dir(target), fmt.Sprintf(".%s.%d-%d.tmp", filepath.Base(target), os.Getpid(), i))
		file, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			file.Close()
			os.Remove(file.Name())
		}
	}()
	if _, err := file.Write(annotate(format, picture.Bytes(), notes)); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), target)
}

// pdfDate matches the two dates in a PDF, both the time of writing.
var pdfDate = regexp.MustCompile(`/(CreationDate|ModDate) \(D:[0-9]{14}\)`)

// Write writes the figure in one of the [Formats].
func Write(w io.Writer, format string, f Figure) error {
	if f == nil {
		return errors.New("figure: no figure given")
	}
	d, err := f.plan()
	if err != nil {
		return err
	}
	height := d.height
	switch format {
	case "png":
		// A whole number of pixels.
		pixels := vg.Length(int(height*pageDPI/72) + 1)
		height = pixels * 72 / pageDPI
		c := vgimg.NewWith(vgimg.UseWH(pageWidth, height), vgimg.UseDPI(pageDPI))
		paint(d, c, height, &canvas{dpi: pageDPI})
		_, err = vgimg.PngCanvas{Canvas: c}.WriteTo(w)
		return err
	case "svg":
		c := vgsvg.New(pageWidth, height)
		paint(d, c, height, &canvas{dpi: vectorDPI})
		var b bytes.Buffer
		if _, err := c.WriteTo(&b); err != nil {
			return err
		}
		// A quotation mark in a label is escaped, so these match only styles.
		s := bytes.ReplaceAll(b.Bytes(), []byte(`style="font-family:Liberation Sans;`),
			[]byte(`style="font-family:'Liberation Sans',Arial,Helvetica,sans-serif;`))
		s = bytes.ReplaceAll(s, []byte(`xlink:href="data:image/jpg;`), []byte(`xlink:href="data:image/png;`))
		_, err = w.Write(s)
		return err
	case "pdf":
		c := vgpdf.New(pageWidth, height)
		paint(d, c, height, &canvas{dpi: vectorDPI, outlines: true})
		var b bytes.Buffer
		if _, err := c.WriteTo(&b); err != nil {
			return err
		}
		// The replacement has the same length, so that the offsets in the file stay valid.
		_, err = w.Write(pdfDate.ReplaceAll(b.Bytes(), []byte("/$1 (D:20000101000000)")))
		return err
	}
	return fmt.Errorf("figure: format %q, expected one of %s", format, strings.Join(Formats(), ", "))
}

func paint(d *drawing, to vg.Canvas, height vg.Length, c *canvas) {
	c.Canvas = to
	c.rect(rect(0, 0, pageWidth, height), color.White)
	d.draw(c)
}

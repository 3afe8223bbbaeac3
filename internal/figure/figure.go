package figure

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"codeberg.org/go-pdf/fpdf"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgpdf"
	"gonum.org/v1/plot/vg/vgsvg"

	"surepipe/internal/dataio"
)

// Figure is one of the figures of this package.
type Figure interface {
	// plan checks the numbers and lays the figure out.
	plan() (*drawing, error)
}

// drawing is a figure after layout: its height is known, nothing is drawn yet.
type drawing struct {
	height vg.Length
	draw   func(*page)
}

// The width of every figure, 900 pixels at 120 per inch, and the white space around everything.
const (
	pageWidth vg.Length = 540
	edge      vg.Length = 6
)

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
	for _, known := range Formats() {
		if strings.EqualFold(ext, "."+known) {
			return known, nil
		}
	}
	expected := "expected one of ." + strings.Join(Formats(), ", .")
	if ext == "" {
		return "", fmt.Errorf("figure %q has no extension, %s", path, expected)
	}
	return "", fmt.Errorf("figure %q ends in %q, %s", path, ext, expected)
}

// Save writes the figure to a file whose name ends in .png, .svg or .pdf, with notes that are not seen.
// An existing file is replaced when the new one is complete, and otherwise unchanged.
func Save(path string, f Figure, notes ...Note) error {
	format, err := Format(path)
	if err != nil {
		return err
	}
	var picture bytes.Buffer
	if err := Write(&picture, format, f); err != nil {
		return err
	}
	if err := dataio.CheckWritable(path); err != nil {
		return fmt.Errorf("figure %q: %w", path, err)
	}
	return dataio.WriteFile(path, func(w io.Writer) error {
		_, err := w.Write(annotate(format, picture.Bytes(), notes))
		return err
	})
}

// Otherwise a PDF has its images in a random order; see also [page.DrawImage].
func init() { fpdf.SetDefaultCatalogSort(true) }

// pdfDate matches the two dates in a PDF, both the time of writing.
var pdfDate = regexp.MustCompile(`/(CreationDate|ModDate) \(D:[0-9]{14}\)`)

// svgNames are names in an SVG and those that stand in their place. A quotation mark in a label is escaped, so
// that these match no label.
var svgNames = strings.NewReplacer(
	`style="font-family:Liberation Sans;`, `style="font-family:'Liberation Sans',Arial,Helvetica,sans-serif;`,
	`xlink:href="data:image/jpg;`, `xlink:href="data:image/png;`)

// Write writes the figure in one of the [Formats].
func Write(w io.Writer, format string, f Figure) error {
	if f == nil {
		return errors.New("figure: no figure given")
	}
	d, err := f.plan()
	if err != nil {
		return err
	}
	paint := func(c vg.CanvasWriterTo, on *page) (file bytes.Buffer, err error) {
		on.Canvas = c
		on.SetColor(white)
		on.Fill(rect(0, 0, pageWidth, d.height+72/pageDPI).Path())
		d.draw(on)
		_, err = c.WriteTo(&file)
		return file, err
	}
	var file bytes.Buffer
	switch format {
	case "png":
		// A whole number of pixels.
		height := vg.Length(int(d.height*pageDPI/72)+1) * 72 / pageDPI
		c := vgimg.NewWith(vgimg.UseWH(pageWidth, height), vgimg.UseDPI(pageDPI))
		file, err = paint(vgimg.PngCanvas{Canvas: c}, &page{dpi: pageDPI})
	case "svg":
		file, err = paint(vgsvg.New(pageWidth, d.height), &page{dpi: vectorDPI})
		file = *bytes.NewBufferString(svgNames.Replace(file.String()))
	case "pdf":
		file, err = paint(vgpdf.New(pageWidth, d.height), &page{dpi: vectorDPI, pdf: true, widths: map[int]bool{}})
		// The replacement has the same length, so that the offsets in the file stay valid.
		file = *bytes.NewBuffer(pdfDate.ReplaceAll(file.Bytes(), []byte("/$1 (D:20000101000000)")))
	default:
		return fmt.Errorf("figure: format %q, expected one of %s", format, strings.Join(Formats(), ", "))
	}
	if err != nil {
		return err
	}
	_, err = file.WriteTo(w)
	return err
}

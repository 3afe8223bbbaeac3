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
	"gonum.org/v1/plot/vg/recorder"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgpdf"
	"gonum.org/v1/plot/vg/vgsvg"

	"surepipe/internal/dataio"
)

type Figure interface {
	// draw checks the numbers and draws the figure on a page whose left upper corner is the origin. It returns where
	// the figure ends.
	draw(*page) (end vg.Length, err error)
}

// The width of every figure, 900 pixels at 120 per inch, and the white space around everything.
const (
	pageWidth vg.Length = 540
	edge      vg.Length = 6
)

// Dots an inch of a PNG, and of the images inside an SVG or PDF.
const (
	pageDPI   = 120
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

// svgNames are names in an SVG and those that take their place. A quotation mark in a label is escaped, so
// that these match no label.
var svgNames = strings.NewReplacer(
	`style="font-family:Liberation Sans;`, `style="font-family:'Liberation Sans',Arial,Helvetica,sans-serif;`,
	`xlink:href="data:image/jpg;`, `xlink:href="data:image/png;`)

func Write(w io.Writer, format string, f Figure) error {
	if f == nil {
		return errors.New("figure: no figure given")
	}
	// The height of the page is known once all is drawn.
	drawn := &recorder.Canvas{}
	on := &page{Canvas: drawn, dpi: vectorDPI}
	switch format {
	case "png":
		on.dpi = pageDPI
	case "pdf":
		on.widths = map[int]bool{}
	}
	end, err := f.draw(on)
	if err != nil {
		return err
	}
	height := edge - end
	var c vg.CanvasWriterTo
	switch format {
	case "png":
		height = vg.Length(int(height*pageDPI/72)+1) * 72 / pageDPI // a whole number of pixels
		c = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(pageWidth, height), vgimg.UseDPI(pageDPI))}
	case "svg":
		c = vgsvg.New(pageWidth, height)
	case "pdf":
		c = vgpdf.New(pageWidth, height)
	default:
		return fmt.Errorf("figure: format %q, expected one of %s", format, strings.Join(Formats(), ", "))
	}
	c.SetColor(white)
	c.Fill(rect(0, 0, pageWidth, height).Path())
	c.Translate(pt(0, height))
	if err := drawn.ReplayOn(c); err != nil {
		return err
	}
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	file := b.Bytes()
	switch format {
	case "svg":
		file = []byte(svgNames.Replace(b.String()))
	case "pdf":
		// The replacement has the same length, so that the offsets in the file stay valid.
		file = pdfDate.ReplaceAll(file, []byte("/$1 (D:20000101000000)"))
	}
	_, err = w.Write(file)
	return err
}

// Package figure draws the command's figures from plain numbers, with gonum's plots.
//
//	Sweep      SURE against a hyperparameter, with its error band, the loss, degrees of freedom
//	HeatMap    SURE on a grid of two hyperparameters
//	Histogram  SURE over samples of y, and its spread over the seeds of the probes
//	Running    a running mean with its standard error, such as that of SURE - loss
//	Images     rows of images with bars of their colours, and a sweep below them
//	Lines      positive numbers against others, on logarithmic axes
//
// Each is a struct of plain numbers that checks itself: values that cannot be drawn (NaN, infinities, lengths that
// differ, a negative hyperparameter) are rejected with an error that names the field, the index and the value. [Save]
// writes a figure as .png (900 pixels wide), .svg or .pdf, by the extension of the file's name. The same numbers give
// the same bytes, at any time and with any number of processors; between processor architectures a last digit can
// differ, where one fuses multiplications and additions.
//
// Axes, grids, curves, bands, cells, bins and samples are those of gonum.org/v1/plot. What it cannot do is here:
//
//	page.go     cells and pixels between dots; upright images and letters beyond Windows-1252 in a PDF
//	text.go     exponents that are raised; lines that are shortened and wrapped
//	axis.go     labels at 1, 2 and 5 of a decade, as many as have room, with a common factor
//	style.go    markers with an edge, stars
//	block.go    legends in rows, above the frame, where they cover no data; panels of unequal heights
//	colours.go  bars of colours with pointed ends
//
// A band is the value plus and minus one standard error; where it is so wide that the curve would be flattened, it is
// cut off at the frame and the legend says so. Colours are those of Okabe and Ito, which readers with a colour
// deficiency can distinguish; the lightness of a heat map's colours alone orders the values. Text is set in Liberation
// Sans, which has Latin, Greek and Cyrillic; a letter that it lacks is drawn as a box, or in an SVG by the viewer's
// fonts. There Arial, which has the same widths, replaces Liberation Sans where it is not installed.
package figure

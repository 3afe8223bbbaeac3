// Package figure draws the command's figures from plain numbers.
//
//	Sweep      SURE against a hyperparameter, with its error band, the loss, degrees of freedom
//	HeatMap    SURE on a grid of two hyperparameters
//	Histogram  SURE over samples of y, and its spread over the seeds of the probes
//	Running    a running mean with its standard error, such as that of SURE - loss
//	Images     a row of grayscale images, and a sweep beside them
//	Lines      time against size on logarithmic axes, with fitted powers
//
// Each is a struct of plain numbers that checks itself: values that cannot be drawn (NaN,
// infinities, lengths that differ, a negative hyperparameter) are rejected with an error that names
// the field, the index and the value. [Save] writes a figure as .png (900 pixels wide), .svg or
// .pdf, by the extension of the file's name, and replaces an existing file only when the new one is
// complete. The same numbers give the same bytes, at any time and with any number of processors;
// between processor architectures a last digit can differ, where one fuses multiplications and
// additions.
//
// Legends are above the frame, so that they cover no data. A band is the value plus and minus one
// standard error; where it is so wide that the curve would be flattened, it is cut off at the frame
// and the legend says so. Colours are those of Okabe and Ito, which readers with a colour
// deficiency can distinguish; the palette of the heat map has equal steps in the OKLab colour
// space, and its lightness alone orders the values. Text is set in Liberation Sans, which has
// Latin, Greek and Cyrillic; a letter that it lacks is drawn as a box. In a PDF text is drawn as
// outlines and needs no font; in an SVG it is text, and Arial, which has the same widths, replaces
// Liberation Sans where that is not installed.
package figure

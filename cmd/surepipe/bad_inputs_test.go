package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/images"
)

// badInput is a kind of bad input: what follows "surepipe run", or another command if it names one,
// and a part of the one line that says what is wrong.
type badInput struct{ kind, args, want string }

// bytesFile is a file of the given bytes.
func bytesFile(t *testing.T, name, content string) string { return text(t, name, content) }

func npyFile(t *testing.T, values []float64, shape ...int) string {
	path := filepath.Join(t.TempDir(), "a.npy")
	if err := dataio.WriteNPY(path, floats("y", values, shape...)); err != nil {
		t.Fatal(err)
	}
	return path
}

// badTables are tables of regressions, and flags about their columns.
func badTables(t *testing.T) []badInput {
	good := text(t, "good.csv", "a,b,c,y\n1,2,u,3\n2,1,v,5\n3,7,u,4\n4,0,v,1\n")
	npy, nanX := npyFile(t, []float64{1, 2}, 2), npyFile(t, []float64{1, math.NaN(), 2, 3}, 2, 2)
	lasso := "--problem lasso --lambda 1 "
	in := func(content string) string {
		return lasso + "--response y --data " + text(t, "t.csv", content)
	}
	return []badInput{
		{"no response named", lasso + "--data " + good,
			"good.csv: which column is the response? Expected --response NAME, one of a, b, c, y, or --y FILE"},
		{"response not a column", lasso + "--response z --data " + good,
			`good.csv: --response: column "z" is missing; the table holds "a", "b", "c", "y"`},
		{"response of texts", lasso + "--response c --data " + good,
			`--response: column "c" holds texts such as "u", expected numbers`},
		{"dropped column not there", lasso + "--response y --drop d --data " + good, `--drop: column "d" is missing`},
		{"response dropped", lasso + "--response y --drop y --data " + good, `--drop: column "y" is the response`},
		{"chosen column not there", lasso + "--response y --only a,b,e --data " + good,
			`--only: column "e" is missing`},
		{"no column left", lasso + "--response y --drop a,b,c --data " + good, `no column besides "y" is left for X`},
		{"empty name", lasso + "--response y --drop a, --data " + good, "--drop has an empty name"},
		{"categorical column not used", lasso + "--response y --categorical a --only b --data " + good,
			`--categorical: column "a" is not used`},
		{"unknown way with missing values", lasso + "--response y --missing zero --data " + good,
			`--missing is "zero", expected one of error, drop, mean`},
		{"columns without a response", lasso + "--drop a --data " + good,
			"--drop is about the columns of a table, but --response is missing"},
		{"response of an array", lasso + "--response y --data " + npy,
			"is not a table with a header line (.csv, .tsv) by its name"},
		{"no such file", lasso + "--response y --data /nowhere/t.csv", "/nowhere/t.csv: no such file or directory"},
		{"a folder", lasso + "--response y --data " + t.TempDir(),
			"is not a table with a header line (.csv, .tsv) by its name"},
		{"response and y", lasso + "--response y --y " + npy + " --data " + good, "expected one of them"},
		{"response and X", lasso + "--response y --X " + npy + " --data " + good,
			"the table has both, expected one of them"},
		{"empty file", in(""), "is empty (0 bytes), expected a table with a header line"},
		{"header line only", in("a,y\n"), "holds a header line, line 1, and no rows"},
		{"a row too long", in("a,y\n1,2\n1,2,3\n"),
			"line 3 has 3 cells, expected 2 as in the header line and the first row"},
		{"missing responses", in("a,y\n1,2\n3,\n4,NA\n"),
			`--missing: line 3, column "y": the value is missing, the first of 2 (y 2); expected drop`},
		{"missing cells", in("a,y,b\n1,2,\n2,3,\n"), `--missing: line 2, column "b": the value is missing`},
		{"no row without missing cells", in("a,y\n,2\n3,\n") + " --missing drop",
			"no row is left: each of the 2 has a missing value"},
		{"a number among texts", in("a,y\nx,2\n7,3\n"),
			`line 3, column "a": found the number "7" in a column of texts such as "x" (line 2)`},
		{"decimal comma between commas", in("a,y\n1,\"2,5\"\n"),
			`line 2, column "y": found "2,5", expected a number with a decimal point`},
		{"three texts as a response", lasso + "--loss logistic --response y --data " + text(t, "t.csv",
			"a,y\n1,Yes\n3,No\n4,Maybe\n"), `--response: column "y" has 3 levels, "Maybe", "No", "Yes"; expected two`},
		{"a mark of one's own among numbers", in("a,y\nNA,2\n2,3\n") + " --na -9",
			`line 3, column "a": found the number "2" in a column of texts such as "NA" (line 2)`},
		{"a mark of one's own", in("a,y\n-9,2\n2,3\n") + " --na -9,NA",
			`--missing: line 2, column "a": the value is missing`},
		{"None among numbers", in("a,y\n1,2\nNone,3\n"),
			`found "None" in a column of numbers such as 1 (line 2); expected a number, an empty cell or NA where one is missing (--na names other texts)`},
		{"a byte 0", in("a,y\n1,\x002\n"), "line 2 holds a byte 0, expected text in UTF-8"},
		{"NaN in X of a file of its own", lasso + "--y " + npyFile(t, []float64{1, 2}, 2) + " --X " + nanX,
			nanX + `: array "X" holds NaN at [0, 1], expected finite numbers`},
		{"a quote that does not end", in("a,y\n1,\"2\n"), "line 2: a quoted cell does not end in a quote"},
		{"names of rows as a category", in("a,y\nx,2\ny,3\nz,4\n"),
			`column "a" holds 3 different texts in 3 rows, such as "x": a name and not a category`},
		{"a column without values", in("a,y,b\n,2,1\n,3,2\n") + " --missing mean",
			`column "a" holds no values in the 2 rows that are used`},
		{"a level like a column", in("c,c=v,y\nu,1,1\nv,2,2\nu,3,4\n"),
			`columns "c" and "c=v" of the table both give a column of X with the name "c=v"`},
		{"truncated gzip", lasso + "--response y --data " + bytesFile(t, "t.csv.gz", "\x1f\x8b\x08"),
			"is truncated or corrupt"},
		{"standardized matrix", "--problem svt --lambda 1 --standardize --data " + npy,
			"--standardize is for ols, ridge"},
		{"proportions above 1", lasso + "--loss logistic --response y --data " + good,
			"y[0] is 3: the logistic loss expects 0 or 1, or a proportion between them; of a table with other labels --success"},
		{"negative counts", lasso + "--loss poisson --response y --data " + text(t, "t.csv", "a,y\n1,2\n3,-1\n4,1\n"),
			"y[1] is -1: the Poisson loss expects counts"},
	}
}

// badColours are images in colours with gaps.
func badColours(t *testing.T) []badInput {
	nan := math.NaN()
	large := save(t, floats("y", []float64{1}, 1), floats("indices", []float64{7}, 1),
		floats("shape", []float64{1e5, 1e5, 3}, 3))
	return []badInput{
		{"a channel without values", "--problem tv2d --missing drop --sigma2 1 --lambda 1 --data " +
			npyFile(t, []float64{1, nan, 3, 4, nan, nan}, 1, 2, 3), "channel 1 of the image, counted from 0, has no values"},
		{"an image too large to form", "--problem tv2d --sigma2 1 --lambda 1 --data " + large,
			"expected at most 2147483647 values in all"},
	}
}

// badSequences are tables of sequences, and flags about them.
func badSequences(t *testing.T) []badInput {
	tv := "--problem tv1d --lambda 1 --sigma2 1 "
	in := func(content, flags string) string { return tv + flags + " --data " + text(t, "s.csv", content) }
	years := "year,flow\n1871,1120\n1872,1160\n1873,963\n1874,1210\n1875,1160\n"
	dates := "date,a,b\n2020-01-01,1,2\n2020-01-02,2,1\n"
	nan := math.NaN()
	npz := save(t, floats("y", []float64{1, 2, 4}, 3), floats("other", []float64{1}, 1))
	longer := npyFile(t, []float64{1, 2}, 2)
	file, err := os.OpenFile(longer, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(file, "+")
	file.Close()
	return []badInput{
		{"a year beside the values", in(years, ""),
			`column "year" increases: is it the index? Name the sequence with --response flow`},
		{"the same for trends", in(years, "--problem trend1d"), `Name the sequence with --response flow`},
		{"the values before the year", in("flow,year\n5,5\n7,4\n1,3\n6,2\n2,1\n", ""),
			`column "year" decreases: is it the index? Name the sequence with --response flow`},
		{"dates beside the values", in("date,flow\n2020-01-01,1\n2020-01-02,2\n", ""),
			`column "date" holds dates: is it the index? Name the sequence with --response flow`},
		{"dates beside several values", in(dates, ""),
			`Expected --response NAME, one of "a", "b"; column "date" holds dates, and is then its index`},
		{"several sequences with names", in("a,b\n1,2\n2,1\n", ""),
			`which column is the sequence? Expected --response NAME, one of "a", "b"`},
		{"a year without a name", in("1871,1120\n1872,1160\n1873,963\n1874,1210\n1875,1160\n", ""),
			"column 0, counted from 0, increases: is it the index? Name the columns in a header line"},
		{"a missing value", in("date,a\n2020-01-01,1\n2020-01-02,NA\n2020-01-03,2\n", "--response a"),
			`--missing: line 3, column "a": the value is missing, the first of 1; expected drop, to estimate them from the others`},
		{"a missing value of one column", in("1\n\n2\n", ""),
			"line 2, column 1: the value is missing, expected a number; --missing drop estimates missing values " +
				"from the others"},
		{"NaN in an array", tv + "--data " + npyFile(t, []float64{1, nan, 2}, 3),
			"holds NaN at [1], expected finite numbers, or --missing drop to estimate missing ones"},
		{"an image with a missing pixel", "--problem tv2d --sigma2 1 --lambda 1 --data " +
			npyFile(t, []float64{1, nan, 2, 3}, 2, 2), "holds NaN at [0, 1], expected finite numbers, or --missing drop to estimate missing ones"},
		{"sequences with a missing value", "--problem tv1d --missing drop --sigma2 1 --lambda 1 --data " +
			npyFile(t, []float64{1, 2, 3, nan, 5, 6}, 2, 3), "holds NaN at [1, 0], expected finite numbers: " +
			"--missing drop is for a single sequence or image"},
		{"means of an image", "--problem tv2d --missing mean --sigma2 1 --lambda 1 --data " +
			npyFile(t, []float64{1, nan, 2, 3}, 2, 2), "--missing drop to estimate missing ones"},
		{"means of a sequence", in(dates, "--response a --missing mean"),
			"a sequence has no mean to put in the place of a value"},
		{"no value", in("a,b\nx,\ny,\n", "--response b --missing drop"), `column "b" holds no values`},
		{"dates in no order", in("date,a\n2020-01-02,1\n2020-01-01,3\n2020-01-03,2\n", "--response a"),
			`--index: line 4, column "date": found "2020-01-03" after "2020-01-01", expected rows in the order of the index`},
		{"a date twice", in("date,a\n2020-01-01,1\n2020-01-02,3\n2020-01-02,2\n", "--response a"),
			`found "2020-01-02" after "2020-01-02", expected rows in the order of the index, each place once`},
		{"an index in no order", in("i,a\n1,1\n3,3\n2,2\n", "--response a --index i"),
			`--index: line 4, column "i": found "2" after "3"`},
		{"an index with a gap", in("i,a\n1,1\n,3\n2,2\n", "--response a --index i"),
			`--index: line 3, column "i": the value is missing`},
		{"no such index", in(dates, "--response a --index c"), `--index: column "c" is missing`},
		{"the index is the response", in(dates, "--response a --index a"), `--index: column "a" is the response`},
		{"an index of a regression", "--problem lasso --lambda 1 --response a --index b --data " + text(t, "s.csv",
			dates), "--index is for tv1d, trend1d, whittaker and specifications, found --problem lasso"},
		{"columns of X", in(dates, "--response a --only b"),
			"--only and --categorical are about the columns of X, which tv1d does not have"},
		{"an index without a response", in(dates, "--index date"),
			"--index is about the columns of a table, but --response is missing"},
		{"y twice", tv + "--data " + npyFile(t, []float64{1, 2}, 2) + " --y " + npyFile(t, []float64{1, 3}, 2),
			"both hold y, expected one of them"},
		{"nothing of an archive", tv + "--data " + save(t, floats("other", []float64{1}, 1)) + " --y " + npyFile(t,
			[]float64{1, 3}, 2), "of which nothing is used: it holds other"},
		{"a place beyond the end", tv + "--data " + save(t, floats("y", []float64{1, 2}, 2),
			floats("indices", []float64{0, 3}, 2), floats("shape", []float64{3}, 1)),
			`array "indices" holds 3 at [1], expected 0 to 2 for a sequence of 3`},
		{"too few places", tv + "--data " + save(t, floats("y", []float64{1, 2}, 2),
			floats("indices", []float64{0}, 1), floats("shape", []float64{3}, 1)),
			`arrays "indices" of 1 values and "shape" of 1, expected 2, as many as "y", and 1`},
		{"bytes after an array", tv + "--data " + longer, "1 bytes follow the array, expected its end"},
		{"a number with an underscore", tv + "--tol 1e-1_0 --data " + npz, `--tol is "1e-1_0", expected a number`},
		{"a number in hexadecimal", tv + "--max-iter 0x10 --data " + npz,
			`--max-iter is "0x10", expected a whole number`},
		{"a weight with an underscore", "--problem tv1d --sigma2 1 --lambda 1_0 --data " + npz,
			`--lambda is "1_0", expected a positive number`},
	}
}

// badRatings are observed entries of a matrix.
func badRatings(t *testing.T) []badInput {
	good := text(t, "good.csv", "user,item,r,w\na,x,1,1\nb,x,2,2\na,z,3,1\nb,z,4,1\n")
	mc := "--problem matrix-completion --lambda 1 "
	in := func(content string) string { return mc + "--response r --data " + text(t, "r.csv", content) }
	matrix := func(content string) string { return mc + "--data " + text(t, "m.csv", content) }
	nan := math.NaN()
	arrays := func(a ...dataio.Array) string { return mc + "--data " + save(t, a...) }
	y, shape := floats("y", []float64{1, 2, 3}, 3), floats("shape", []float64{2, 3}, 2)
	indices := floats("indices", []float64{0, 2, 4}, 3)
	return []badInput{
		{"an entry twice", in("u,i,r\na,x,1\na,x,2\n"), `line 3 repeats the entry of line 2, u "a" and i "x"`},
		{"an entry twice in other digits", in("u,i,r\n1,x,1\n1.0,x,2\n"),
			`line 3 repeats the entry of line 2, u "1" and i "x"`},
		{"three names of an entry", mc + "--response r --data " + good,
			`--only: 3 columns besides "r" are left, "user", "item", "w"; expected two`},
		{"one name of an entry", in("u,r\na,1\n"), "expected two, which name the rows and the columns of the matrix"},
		{"ratings of texts", in("u,i,r\na,x,good\n"),
			`--response: column "r" holds texts such as "good", expected numbers`},
		{"an entry without a name", in("u,i,r\na,,1\n"), `--missing: line 2, column "i": the value is missing`},
		{"means of entries", in("u,i,r\na,x,1\n") + " --missing mean",
			"entries of a matrix have no mean to put in their place"},
		{"weights of texts", mc + "--response r --weights item --only user,w --data " + good,
			`--weights: column "item" holds texts such as "x", expected numbers`},
		{"weights not there", mc + "--response r --weights ww --data " + good, `--weights: column "ww" is missing`},
		{"weights that are the response", mc + "--response r --weights r --data " + good,
			`--weights: column "r" is the response`},
		{"negative weights", mc + "--response r --weights w --data " + text(t, "r.csv",
			"u,i,r,w\na,x,1,-1\nb,z,1,1\n"), `--weights: line 2, column "w": found -1, expected a positive weight`},
		{"weights without a table", mc + "--weights w --data " + good, "--response is missing"},
		{"unknown effects", mc + "--effects users --response r --drop w --data " + good,
			`--effects: found "users", expected some of mean, rows, cols`},
		{"effects of a regression", "--problem lasso --lambda 1 --effects rows --response r --data " + good,
			"--effects is for matrix-completion"},
		{"effects with a loss", mc + "--effects rows --loss logistic --response r --drop w --data " + good,
			"which is for the squared loss"},
		{"effects that fit all", in("u,i,r\na,x,1\na,z,2\nb,x,3\n") + " --effects rows,cols",
			"the effects (rows,cols) alone fit all of the 3 entries"},
		{"a matrix without missing entries", matrix("1,2\n3,4\n"), "no entry of the 2 x 2 matrix is missing"},
		{"a matrix without entries", matrix("a,b\n,\nNA,NaN\n"), "every entry"},
		{"a matrix with texts", matrix("a,b\n1,x\n2,\n"), `column "b"`},
		{"rows of one name", matrix(",a,b\nr,1,\nr,2,3\n"), `lines 2 and 3 are both named "r"`},
		{"an array without NaN", mc + "--data " + npyFile(t, []float64{1, 2, 3, 4}, 2, 2),
			"has shape (2, 2) and no NaN"},
		{"an array of NaN", mc + "--data " + npyFile(t, []float64{nan, nan}, 1, 2), "is NaN everywhere"},
		{"infinite entries", mc + "--data " + npyFile(t, []float64{nan, math.Inf(1)}, 1, 2),
			"holds +Inf at [0], expected finite numbers"},
		{"a vector", mc + "--data " + npyFile(t, []float64{nan, 1}, 2), "single array of shape (2,)"},
		{"places out of the matrix", arrays(y, floats("indices", []float64{0, 2, 6}, 3), shape),
			`array "indices" holds 6 at [2], expected 0 to 5 for a 2 x 3 matrix`},
		{"a place twice", arrays(y, floats("indices", []float64{0, 2, 2}, 3), shape),
			`array "indices" holds 2 twice, at [1] and [2]`},
		{"too few places", arrays(y, floats("indices", []float64{0, 2}, 2), shape),
			`array "indices" has 2 values, expected 3`},
		{"no shape", arrays(y, indices), `array "shape" is missing`},
		{"fractions as places", arrays(y, floats("indices", []float64{0, 2, 2.5}, 3), shape),
			`array "indices" holds 2.5 at [2], expected integers`},
		{"too few weights", arrays(y, indices, shape, floats("weights", []float64{1, 2}, 2)),
			`array "weights" has 2 values, expected 3`},
		{"weights 0 with effects", arrays(y, indices, shape, floats("weights", []float64{1, 0, 2}, 3)) +
			" --effects mean", `array "weights" holds 0 at [1]`},
		{"NaN among entries", arrays(floats("y", []float64{1, nan, 3}, 3), indices, shape),
			`array "y" holds NaN at [1], expected finite numbers`},
	}
}

// badImages are images for a specification, or matrices for svt.
func badImages(t *testing.T) []badInput {
	dir := t.TempDir()
	denoise := "--spec " + example(t, dir, "wavelet-denoise") + " --sigma2 0.01 "
	small := filepath.Join(dir, "small.tif")
	if _, err := dataio.WriteImage(small, func(w io.Writer) (int, error) {
		return images.EncodeTIFF(w, floats("y", make([]float64, 4), 2, 2), dataio.Depth{Bits: 8})
	}); err != nil {
		t.Fatal(err)
	}
	nan := "II*\x00\x08\x00\x00\x00\x06\x00" +
		"\x00\x01\x04\x00\x01\x00\x00\x00\x01\x00\x00\x00" + "\x01\x01\x04\x00\x01\x00\x00\x00\x01\x00\x00\x00" +
		"\x02\x01\x03\x00\x01\x00\x00\x00\x20\x00\x00\x00" + "\x11\x01\x04\x00\x01\x00\x00\x00\x56\x00\x00\x00" +
		"\x17\x01\x04\x00\x01\x00\x00\x00\x04\x00\x00\x00" + "\x53\x01\x03\x00\x01\x00\x00\x00\x03\x00\x00\x00" +
		"\x00\x00\x00\x00" + "\x00\x00\xc0\x7f"
	return []badInput{
		{"NaN in a TIFF", denoise + "--data " + bytesFile(t, "nan.tif", nan),
			"holds NaN at [0, 0], expected finite numbers"},
		{"a stack of pictures", denoise + "--data " + npyFile(t, make([]float64, 120), 4, 5, 6),
			"of shape (4, 5, 6), expected a sequence, an image (m, n)"},
		{"four axes", denoise + "--data " + npyFile(t, make([]float64, 16), 2, 2, 2, 2),
			"of shape (2, 2, 2, 2), expected a sequence"},
		{"too small for its levels", denoise + "--data " + small,
			"undecimated wavelet transform of 5 levels, want 1 to 3 for 2 x 2 values"},
		{"a WebP under another name", denoise + "--data " + bytesFile(t, "a.png", "RIFF\x00\x00\x00\x00WEBP"),
			"is a GIF, BMP, WebP or BigTIFF image, expected a .png, .jpg or .tif"},
		{"a DICOM file that starts like a TIFF", denoise + "--data " + bytesFile(t, "a.tif", "II*\x00"+
			strings.Repeat("\x00", 124)+"DICM\x02"), `is a DICOM file: save its values as an array, for instance with ` +
			`python3 -c 'import numpy, pydicom; numpy.save("out.npy", pydicom.dcmread("in.dcm").pixel_array.astype(float))'`},
		{"a compressed FITS file", denoise + "--data " + packed(t, "a.fits.gz", "SIMPLE  =                    T"),
			`is a FITS file: save its values`},
		{"the head of a PNG", denoise + "--data " + bytesFile(t, "a.png", "\x89PNG\r\n\x1a\n"),
			"is not a PNG image, or truncated"},
		{"an unknown format", denoise + "--data " + bytesFile(t, "a.dat", "what is this?"), "has an unknown format"},
		{"an empty file", denoise + "--data " + bytesFile(t, "a.png", ""), "is empty"},
		{"NaN in an array", denoise + "--data " + npyFile(t, append(make([]float64, 4095), math.NaN()), 64, 64),
			"holds NaN at [63, 63], expected finite numbers"},
		{"half of an array", denoise + "--data " + bytesFile(t, "a.npy",
			"\x93NUMPY\x01\x00\x46\x00{'descr': '<f8', 'fortran_order': False, 'shape': (64, 64)}       \n1234"),
			"is truncated or corrupt"},
		{"a truth of another size", denoise + "--data ../../testdata/camera.png --mu " + small,
			`array "mu" has shape (2, 2), expected (256, 256)`},
		{"a picture for a regression", "--problem lasso --lambda 1 --data ../../testdata/camera.png",
			"expected X and y"},
		{"a picture for a completion", "--problem matrix-completion --lambda 1 --data ../../testdata/camera.png",
			"no NaN"},
		{"colour for svt", "--problem svt --lambda 1 --data " + npyFile(t, make([]float64, 27), 3, 3, 3),
			"expected (m, n)"},
		{"rows of different lengths", "--problem svt --lambda 1 --data " + text(t, "m.csv", "1,2\n3\n"),
			"line 2 has 1 cells, expected 2 as in the first row"},
		{"a matrix with an empty cell", "--problem svt --lambda 1 --data " + text(t, "m.csv", "1,2\n3,\n"),
			"line 2, column 2: the value is missing, expected a number"},
		{"too many values", "--problem svt --lambda 1 --data " + text(t, "m.mtx",
			"%%MatrixMarket matrix array real general\n1 2\n1\n2\n3\n"),
			"line 5: there are more than the 2 values of the matrix's size"},
	}
}

// Each kind of bad table, ratings, image and size is one line on standard error that says what is wrong
// where, with exit status 2, nothing on standard output, and the file of --out as it was.
func TestKindsOfBadInput(t *testing.T) {
	groups := []struct {
		name  string
		least int
		cases []badInput
	}{
		{"table", 30, badTables(t)}, {"sequence", 25, badSequences(t)}, {"colours", 2, badColours(t)},
		{"ratings", 25, badRatings(t)},
		{"image", 15, badImages(t)}, {"size", 10, badSizes(t)},
	}
	out := filepath.Join(t.TempDir(), "fit.npz")
	for _, g := range groups {
		seen := map[string]bool{}
		for _, c := range g.cases {
			if seen[c.kind] {
				t.Errorf("%s: two cases are %q", g.name, c.kind)
			}
			seen[c.kind] = true
			t.Run(g.name+"/"+c.kind, func(t *testing.T) {
				const before = "what was there before"
				if err := os.WriteFile(out, []byte(before), 0o666); err != nil {
					t.Fatal(err)
				}
				status, stdout, stderr := command(t,
					append([]string{"run", "--out", out}, strings.Fields(c.args)...)...)
				if status != exitUsage || stdout != "" || strings.Count(stderr, "\n") != 1 ||
					!strings.Contains(stderr, c.want) {
					t.Errorf("surepipe run %s: status %d, expected %q in one line, found %q%q", c.args, status,
						c.want, stdout, stderr)
				}
				if after, err := os.ReadFile(out); err != nil || string(after) != before {
					t.Errorf("surepipe run %s: the file of --out has become %q, %v", c.args, after, err)
				}
			})
		}
		if len(seen) < g.least {
			t.Errorf("%d kinds of bad %s, expected at least %d", len(seen), g.name, g.least)
		}
	}
}

// A grey image in colours has the noise of one channel.
func TestEqualChannelsAreTold(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, same := range []bool{false, true} {
		values := make([]float64, 8*8*3)
		for i := range values {
			if values[i] = r.NormFloat64(); same && i%3 == 2 {
				values[i] = values[i-1]
			}
		}
		_, _, s := sweepLines(t, "--problem", "tv2d", "--data", npyFile(t, values, 8, 8, 3), "--sigma2", "1", "--lambda",
			"0.5:1:2")
		if told := strings.Contains(fmt.Sprint(s.Warnings), "equal-channels"); told != same {
			t.Errorf("the same: %t, warnings %v", same, s.Warnings)
		}
	}
}

// An alpha channel of opaque pixels is not denoised. No channel is named that varies, or has another value, as a
// band that was not measured.
func TestAnAlphaChannelIsRefused(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	for _, c := range []struct {
		channels int
		last     float64
		alpha    bool
	}{{2, 1, true}, {4, 1, true}, {4, 255, true}, {3, 1, false}, {4, 0, false}, {2, 0.4, false}} {
		values := make([]float64, 8*8*c.channels)
		for i := range values {
			if values[i] = r.NormFloat64(); i%c.channels == c.channels-1 {
				values[i] = c.last
			}
		}
		status, _, stderr := command(t, "run", "--problem", "tv2d", "--data", npyFile(t, values, 8, 8, c.channels),
			"--sigma2", "1", "--lambda", "1")
		told := strings.Contains(stderr, fmt.Sprintf("channel %d of y, counted from 0, is %g everywhere", c.channels-1,
			c.last))
		if told != c.alpha || c.alpha != (status == exitUsage) {
			t.Errorf("%+v: exit %d, %s", c, status, stderr)
		}
	}
}

// Package design turns the columns of a table into the response y and the design matrix X of a
// regression, and applies the same coding to new rows.
//
// # Coding
//
// A column of numbers is a column of X. A column of texts, or one named as categorical, gives a
// column of zeros and ones for each of its levels, named "column=level", in increasing order of the
// levels. All levels have a column where X is penalized: the penalty then treats the levels alike,
// and the norm of a group does not depend on which of them is taken as a reference. The two columns of
// two levels say the same thing beside an intercept, so the first level then has no column
// ([Options].Binary): the fit by the LASSO or the norms of groups is the same. Without a penalty the columns
// of all levels would be dependent on the intercept, so the first level is then the reference and
// has no column ([Options].Reference), as in R.
//
// The columns of X that come from one column of the table are a group ([Design.Groups]).
//
// # Missing values
//
// A missing value is an error that names its place. [Options].Missing leaves out such rows (drop),
// or replaces missing cells of X by the means of the columns of X over the cells that are not
// missing (mean); rows without a response are left out in both cases. The means are kept, and also
// replace missing cells of new rows.
package design

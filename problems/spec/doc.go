// Package spec describes estimators in YAML: their operator, regularizer, loss and weights, and the arrays that
// they use. A [Spec] is parsed by [Parse], reads its arrays by [Spec.Load], and makes the parts of a problem by
// [Spec.Build], from which package problems makes the problem.
//
// An operator, or a regularizer, is a row of a table with its name, help, parameters and what it makes of them;
// [RegisterRegularizer] adds a regularizer from outside; operators of this module are rows of operator.go. No other
// package asks for one by its name: what depends on it, such as which estimate of sigma^2 suits, is a field of the row.
package spec

// Package clustered has regularizers whose proximal operators set coordinates equal: total variation along a
// sequence ([NewTV1D]), in pieces of neighbours, and the sorted l1 norm of SLOPE and OWL ([NewSortedL1]), in clusters
// of equal magnitude. J averages over each piece or cluster, and its trace, their number, counts degrees of freedom.
package clustered

library(testthat)
library(surepipe)
test_check("surepipe")

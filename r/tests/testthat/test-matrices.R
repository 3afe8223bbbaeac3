test_that("a table is completed, and what is seen stays", {
  skip_without_program()
  set.seed(1)
  truth <- outer(rnorm(40), rnorm(12)) + outer(rnorm(40), rep(1, 12))
  x <- truth + 0.1 * rnorm(length(truth))
  dimnames(x) <- list(NULL, letters[1:12])
  x[sample(length(x), 150)] <- NA
  fit <- quiet(complete(x))
  expect_identical(fit$completed[!is.na(x)], x[!is.na(x)])
  expect_identical(dimnames(fit$completed), dimnames(x))
  expect_lt(mean((fit$completed[is.na(x)] - truth[is.na(x)])^2), 0.2 * mean(truth^2))
  expect_output(print(fit), "40 x 12")
  expect_error(complete(truth), "no missing entry")
})

test_that("an image is closer to the truth", {
  skip_without_program()
  set.seed(2)
  noisy <- datasets::volcano + rnorm(length(datasets::volcano), sd = 8)
  fit <- quiet(denoise(noisy))
  expect_identical(dim(fit$image), dim(noisy))
  expect_lt(mean((fit$image - datasets::volcano)^2), 0.5 * 64)
  expect_equal(fit$sigma2, 64, tolerance = 0.2)
  noisy[3] <- NA
  expect_error(denoise(noisy), "missing values")
})

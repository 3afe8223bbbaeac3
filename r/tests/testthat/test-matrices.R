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
  filled <- quiet(denoise(noisy, by = "tv"))
  expect_lt(abs(filled$image[3] - datasets::volcano[3]), 8)
  expect_identical(dim(filled$image), dim(noisy))
  plot(filled)
})

test_that("outliers are told from a matrix of low rank", {
  skip_without_program()
  set.seed(3)
  low <- outer(rnorm(30), rnorm(20))
  x <- low + 0.05 * rnorm(600)
  at <- sample(600, 20)
  x[at] <- x[at] + 6
  fit <- quiet(separate(x))
  expect_setequal(intersect(which(fit$sparse != 0), at), at)
  expect_lt(mean((fit$low.rank - low)^2), 0.1 * mean(low^2))
  expect_equal(fit$low.rank + fit$sparse, fit$mu_hat)
  expect_true("gamma" %in% names(fit$points))
  expect_output(print(fit), "30 x 20")
  expect_error(separate(replace(x, 1, NA)), "missing")
  expect_error(surepipe_run("robust-pca", list(z = x)), "z", class = "surepipe_error")
  expect_error(surepipe_run("robust-pca", list(y = letters)), "y is of type character")
})

test_that("columns of a data frame have their units", {
  as_it_is <- quiet(complete(airquality[1:4], lambda = 1, standardize = TRUE))
  expect_message(got <- complete(data.frame(airquality[1:3], Temp = 1e4 * airquality$Temp), lambda = 1),
                 '"Wind"\\) to .* \\("Temp"\\): columns are divided', class = "surepipe_standardized_columns")
  expect_equal(got$risk, as_it_is$risk, tolerance = 1e-6)
  expect_equal(got$completed[, "Ozone"], as_it_is$completed[, "Ozone"], tolerance = 1e-5)
})

test_that("a doubt about gcv is told where gcv was minimized", {
  codes <- function(criterion) {
    seen <- character()
    withCallingHandlers(complete(as.matrix(airquality[1:4]), lambda = "0.05max:max:5", criterion = criterion),
                        surepipe_warning = function(w) { seen <<- c(seen, class(w)[1]); invokeRestart("muffleWarning") })
    "surepipe_gcv_leverages" %in% seen
  }
  expect_true(codes("gcv"))
  expect_false(codes("alo"))
})

test_that("categories are not completed as numbers", {
  expect_error(complete(data.frame(a = c(1, NA, 3), b = letters[1:3])), "column b of x holds no numbers")
  expect_error(complete(transform(iris[1:9, ], Sepal.Width = c(NA, 1:8))), "column Species")
})

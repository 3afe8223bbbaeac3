test_that("several responses are each fitted alone", {
  skip_without_program()
  both <- quiet(surepipe(cbind(mpg, qsec) ~ wt + hp + factor(cyl), mtcars, lambda = "0.05max"))
  expect_identical(names(both), c("mpg", "qsec"))
  for (name in names(both)) {
    one <- quiet(surepipe(stats::reformulate(c("wt", "hp", "factor(cyl)"), name), mtcars, lambda = "0.05max"))
    expect_equal(coef(both)[, name], coef(one))
    expect_equal(predict(both, mtcars)[, name], predict(one, mtcars))
    expect_equal(both[[name]]$risk, one$risk)
  }
  expect_output(print(both), "qsec: lasso, weight")
  expect_equal(dim(residuals(both)), c(32, 2))
  expect_error(predict(both, newx = mtcars), "no argument newx")
  expect_error(surepipe(as.matrix(mtcars[, -1]), as.matrix(mtcars[, 1:2]) > 20, family = "binomial"), "2 columns")
})

test_that("a factor of several levels is multinomial", {
  skip_without_program()
  fit <- quiet(surepipe(Species ~ ., iris, family = "multinomial", lambda = 3))
  expect_equal(dim(coef(fit)), c(5, 3))
  expect_equal(colnames(coef(fit)), levels(iris$Species))
  p <- predict(fit, iris)
  expect_equal(unname(rowSums(p)), rep(1, 150))
  expect_equal(p, fitted(fit))
  expect_gt(mean(predict(fit, iris, "class") == iris$Species), 0.9)
  # The optimum: the slope of the log likelihood is at most the weight, in units of standard deviation.
  x <- scale(as.matrix(iris[, 1:4])) * sqrt(150 / 149)
  slope <- crossprod(x, outer(iris$Species, levels(iris$Species), "==") - p)
  expect_lt(max(abs(slope)), 3 + 1e-4)
  expect_equal(max(abs(slope)), 3, tolerance = 1e-4)
  expect_error(surepipe(Species ~ ., iris, family = "binomial"), "multinomial")
  expect_error(residuals(fit), "multinomial")
})

test_that("arguments that predict does not know are named", {
  skip_without_program()
  fit <- quiet(surepipe(mpg ~ wt, mtcars, lambda = 1))
  expect_error(predict(fit, newx = mtcars), "no argument newx: expected newdata")
  expect_error(predict(fit, mtcars, s = 3), "no argument s")
})

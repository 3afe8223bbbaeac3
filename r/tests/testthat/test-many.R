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

test_that("several responses share their support", {
  skip_without_program()
  fit <- quiet(surepipe(cbind(mpg, qsec, drat) ~ wt + hp + factor(cyl), mtcars, family = "mgaussian", lambda = 8,
                        penalty = "group-lasso"))
  expect_equal(dim(coef(fit)), c(5, 3))
  expect_equal(colnames(predict(fit, mtcars)), c("mpg", "qsec", "drat"))
  expect_equal(predict(fit, mtcars), fitted(fit))
  r <- residuals(fit)
  expect_equal(dim(r), c(32, 3))
  # The optimum: the slope of a column is as long as the weight times the square root of the size of its group.
  x <- scale(stats::model.matrix(~ wt + hp, mtcars)[, -1]) * sqrt(32 / 31)
  slope <- sqrt(rowSums(crossprod(x, r)^2))
  expect_lt(max(slope), 8 * sqrt(3) + 1e-4)
  expect_equal(max(slope), 8 * sqrt(3), tolerance = 1e-4)
  expect_false(any(grepl("Debiased|standard errors", capture.output(print(summary(fit)))))) # they are not known
  expect_error(surepipe(mpg ~ wt, mtcars, family = "mgaussian"), "several columns")
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

test_that("augment leaves out the rows that the fit left out", {
  skip_without_program()
  fit <- quiet(surepipe(Ozone ~ Temp, airquality))
  got <- surepipe:::augment.surepipe(fit, airquality)
  expect_equal(got$Ozone, airquality$Ozone[!is.na(airquality$Ozone)])
  expect_equal(got$.resid, got$Ozone - got$.fitted)
})

test_that("a fit at one weight has the criterion of a sweep, and prints in what unit", {
  skip_without_program()
  ols <- quiet(surepipe(mpg ~ wt, mtcars, penalty = "ols"))
  expect_equal(ols$risk, 32 * deviance(lm(mpg ~ wt, mtcars)) / 30^2)
  expect_output(print(ols), "\nols: 2 degrees of freedom, generalized cross-validation 9.896", fixed = TRUE)
  expect_output(print(ols), "37.285")
  counts <- quiet(surepipe(am ~ wt, mtcars, family = "binomial", lambda = 1))
  expect_identical(counts$criterion, "alo")
  expect_output(print(counts), "minus the log-likelihood")
  expect_output(print(summary(counts)), "0 of 1 coefficients are zero")
})

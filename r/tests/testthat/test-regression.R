test_that("ols and ridge are those of linear algebra", {
  skip_without_program()
  fit <- surepipe(mpg ~ wt + factor(cyl), mtcars, penalty = "ols", sigma2 = 6)
  expect_equal(coef(fit), coef(lm(mpg ~ wt + factor(cyl), mtcars)), tolerance = 1e-8)
  x <- scale(as.matrix(mtcars[, -1]), scale = FALSE)
  y <- mtcars$mpg
  fit <- quiet(surepipe(x, y, penalty = "ridge", lambda = 20, standardize = FALSE, sigma2 = 6))
  b <- drop(solve(crossprod(x) + 20 * diag(ncol(x)), crossprod(x, y)))
  expect_equal(coef(fit)[-1], b, tolerance = 1e-8)
  df <- sum(diag(x %*% solve(crossprod(x) + 20 * diag(ncol(x)), t(x)))) + 1
  expect_equal(fit$df, df, tolerance = 1e-8)
  expect_equal(fit$risk, sum((fitted(fit) - y)^2) - nrow(x) * 6 + 12 * df, tolerance = 1e-8)
})

test_that("the lasso is glmnet's", {
  skip_without_program()
  skip_if_not_installed("glmnet")
  x <- as.matrix(mtcars[, -1])
  for (family in c("gaussian", "binomial", "poisson")) {
    y <- switch(family, gaussian = mtcars$mpg, binomial = mtcars$am, poisson = mtcars$carb)
    if (family != "gaussian") x <- as.matrix(mtcars[, c("mpg", "wt", "hp", "qsec")])
    lambda <- 0.1
    want <- glmnet::glmnet(x, y, family = family, lambda = lambda, thresh = 1e-14)
    got <- quiet(surepipe(x, y, family = family, lambda = lambda * nrow(x)))
    expect_equal(unname(coef(got)), unname(as.matrix(coef(want))[, 1]), tolerance = 1e-4, label = family)
  }
})

test_that("predictions repeat the fit, factors and missing values are as in glm", {
  skip_without_program()
  data <- datasets::airquality
  data$Month <- factor(data$Month)
  fit <- quiet(surepipe(Ozone ~ ., data, na.action = na.exclude))
  expect_length(fitted(fit), nrow(data))
  expect_identical(is.na(fitted(fit)), unname(!stats::complete.cases(data)) |> stats::setNames(rownames(data)))
  seen <- stats::complete.cases(data)
  expect_equal(unname(predict(fit, data[seen, ])), unname(fitted(fit)[seen]))
  expect_equal(nobs(fit), sum(seen))
  expect_error(predict(fit, transform(data, Month = "13")), "Month")
  by <- quiet(surepipe(Species ~ Petal.Width + Sepal.Width, droplevels(iris[51:150, ]), family = "binomial"))
  right <- as.character(predict(by, type = "class")) == as.character(iris$Species[51:150])
  expect_gt(mean(right), 0.9)
})

test_that("weights of the penalty may be a list", {
  skip_without_program()
  fit <- quiet(surepipe(mpg ~ ., mtcars, lambda = c(30, 5, 20)))
  expect_equal(sort(as.data.frame(fit)$lambda), c(5, 20, 30))
  expect_error(surepipe(mpg ~ ., mtcars, lambda = c(-5, 20)), "not positive")
})

test_that("weights, offsets, factors and the elastic net are glm's and glmnet's", {
  skip_without_program()
  w <- rep(c(1, 2.5), 16)
  fit <- surepipe(mpg ~ wt + hp, mtcars, penalty = "ols", weights = w, sigma2 = 6)
  expect_equal(coef(fit), coef(lm(mpg ~ wt + hp, mtcars, weights = w)), tolerance = 1e-8)
  by <- suppressWarnings(surepipe(carb ~ wt + offset(log(cyl)), mtcars, family = "poisson", lambda = 1e-6))
  expect_equal(coef(by), coef(glm(carb ~ wt + offset(log(cyl)), poisson, mtcars)), tolerance = 1e-4)
  expect_equal(unname(predict(by, mtcars)), unname(fitted(by)))
  both <- suppressWarnings(surepipe(carb ~ wt + offset(log(cyl)), mtcars, offset = qsec / 20, family = "poisson",
                                    lambda = 1))
  expect_equal(unname(predict(both, mtcars)), unname(fitted(both)))
  skip_if_not_installed("glmnet")
  x <- as.matrix(mtcars[, c("cyl", "disp", "hp", "wt")])
  factors <- c(0, 1, 1, 2)
  want <- glmnet::glmnet(x, mtcars$mpg, lambda = 0.5, penalty.factor = factors, thresh = 1e-14)
  got <- quiet(surepipe(x, mtcars$mpg, lambda = 0.5 * 32, penalty.factor = factors * 4 / sum(factors)))
  expect_equal(unname(coef(got)), unname(as.matrix(coef(want))[, 1]), tolerance = 1e-5)
  sd1 <- sd(mtcars$mpg) * sqrt(31 / 32)
  y <- mtcars$mpg / sd1 # glmnet's elastic net depends on the scale of y
  want <- glmnet::glmnet(x, y, alpha = 0.5, lambda = 0.1, thresh = 1e-14)
  got <- quiet(surepipe(x, y, penalty = "elastic-net", lambda = 3.2, alpha = 0.5))
  expect_equal(unname(coef(got)), unname(as.matrix(coef(want))[, 1]), tolerance = 1e-5)
  expect_error(surepipe(x, y, penalty.factor = 1:3), "factors has 3 values")
})

test_that("times of events are coxph's and glmnet's", {
  skip_without_program()
  skip_if_not_installed("survival")
  d <- survival::veteran
  Surv <- survival::Surv
  strata <- survival::strata
  cluster <- survival::cluster
  for (ties in c("efron", "breslow")) {
    want <- survival::coxph(Surv(time, status) ~ trt + karno + age + celltype, d, ties = ties)
    got <- surepipe(Surv(time, status) ~ trt + karno + age + celltype, d, family = "cox", penalty = "ols", ties = ties)
    expect_equal(coef(got), coef(want), tolerance = 1e-6)
  }
  want <- survival::coxph(Surv(time, status) ~ trt + karno + strata(celltype), d, weights = prior + 1)
  got <- surepipe(as.matrix(d[c("trt", "karno")]), Surv(d$time, d$status), family = "cox", penalty = "ols",
                  strata = d$celltype, weights = d$prior + 1)
  expect_equal(coef(got), coef(want), tolerance = 1e-6)
  heart <- survival::heart
  want <- survival::coxph(Surv(start, stop, event) ~ age + surgery, heart)
  got <- surepipe(Surv(start, stop, event) ~ age + surgery, heart, family = "cox", penalty = "ols")
  expect_equal(coef(got), coef(want), tolerance = 1e-6)
  fit <- quiet(surepipe(Surv(time, status) ~ ., d, family = "cox"))
  expect_equal(unname(predict(fit, d)), unname(fitted(fit)))
  expect_error(residuals(fit), "cox")
  expect_error(surepipe(as.matrix(d[c("trt", "karno")]), d$time, family = "cox"), "Surv")
})

test_that("a formula of times needs no attached survival", {
  skip_without_program()
  skip_if_not_installed("survival")
  skip_if("package:survival" %in% search())
  d <- survival::veteran
  fit <- quiet(surepipe(Surv(time, status) ~ trt + karno + strata(celltype), d, family = "cox"))
  expect_equal(unname(predict(fit, d)), unname(fitted(fit)))
})

test_that("a path has a choice, a picture, and tables", {
  skip_without_program()
  fit <- quiet(surepipe(mpg ~ ., mtcars))
  frame <- as.data.frame(fit)
  expect_equal(fit$risk, min(frame$gcv))
  expect_true(all(diff(frame$lambda) > 0))
  to <- tempfile(fileext = ".png")
  grDevices::png(to)
  plot(fit)
  grDevices::dev.off()
  expect_gt(file.size(to), 1000)
  expect_output(print(fit), "degrees of freedom")
  expect_output(print(summary(fit)), "coefficients are zero")
  skip_if_not_installed("broom")
  expect_equal(broom::glance(fit)$lambda, fit$lambda)
  expect_setequal(broom::tidy(fit)$term, names(which(coef(fit) != 0)))
})

test_that("large arrays go through files", {
  skip_without_program()
  set.seed(1)
  x <- matrix(rnorm(400 * 400), 400)
  y <- x[, 1] - x[, 2] + rnorm(400)
  before <- list.files(worker()$folder)
  fit <- surepipe(x, y, lambda = 60, sigma2 = 1, intercept = FALSE, standardize = FALSE)
  small <- surepipe(x[, 1:2], y, lambda = 60, sigma2 = 1, intercept = FALSE, standardize = FALSE)
  expect_equal(unname(coef(fit)[1:2]), unname(coef(small)), tolerance = 0.05)
  expect_identical(list.files(worker()$folder), before)
})

test_that("bad input is refused by its name, and nothing else is harmed", {
  skip_without_program()
  expect_error(surepipe(as.matrix(mtcars[, -1]), mtcars$mpg[-1]), "y has 31 values, expected 32")
  expect_error(surepipe(mpg ~ wt, mtcars, lamda = 3), "no argument lamda")
  expect_error(surepipe(mpg ~ wt, mtcars, lambda = -3), class = "surepipe_error")
  expect_error(surepipe(mpg ~ wt, mtcars, lambda = "1:2"), class = "surepipe_error")
  expect_error(surepipe(mpg ~ wt, mtcars, lambda = c(0, 2, 3)), "not positive")
  expect_error(surepipe(mpg ~ wt, mtcars, options = list(nonsense = 1)), "nonsense")
  expect_error(surepipe(Species ~ ., iris, family = "binomial"), "3 levels, expected 2")
  x <- as.matrix(mtcars[, -1])
  x[3, 2] <- NA
  expect_error(surepipe(x, mtcars$mpg), class = "surepipe_error")
  expect_s3_class(surepipe(mpg ~ wt, mtcars, lambda = 3, sigma2 = 6), "surepipe")
})

test_that("the path ends at the fit, and is drawn", {
  skip_without_program()
  fit <- quiet(surepipe(mpg ~ ., mtcars, options = list(refine = 0)))
  expect_identical(colnames(fit$path), names(coef(fit)))
  expect_equal(nrow(fit$path), nrow(fit$points))
  at <- which.min(abs(log(fit$points$lambda / fit$lambda)))
  expect_equal(fit$path[at, ], coef(fit), tolerance = 1e-6)
  expect_true(all(fit$path[nrow(fit$path), -1] == 0))
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  expect_invisible(plot(fit, "path"))
  expect_error(plot(quiet(surepipe(mpg ~ ., mtcars, lambda = 3)), "path"), "single weight")
})

test_that("few rows with many columns are cross-validated, and families are as glm takes them", {
  skip_without_program()
  set.seed(4)
  wide <- surepipe(matrix(rnorm(1000), 20), rnorm(20))
  expect_identical(wide$criterion, "cv")
  expect_true(wide$risk_stderr > 0 && wide$risk_stderr < wide$risk)
  expect_true(all(c("cv", "cv_stderr") %in% names(as.data.frame(wide))))
  expect_identical(coef(surepipe(am ~ wt, mtcars, family = binomial())), coef(surepipe(am ~ wt, mtcars, family = "binomial")))
  expect_error(surepipe(am ~ wt, mtcars, family = binomial("probit")), "expected gaussian with identity")
})

test_that("strata in a formula are groups with hazards of their own", {
  skip_without_program()
  skip_if_not_installed("survival")
  Surv <- survival::Surv
  strata <- survival::strata
  cluster <- survival::cluster
  lung <- survival::lung
  fit <- quiet(surepipe(Surv(time, status) ~ age + ph.ecog + strata(sex), lung, lambda = 1e-6))
  referee <- survival::coxph(Surv(time, status) ~ age + ph.ecog + strata(sex), lung)
  expect_equal(coef(fit), coef(referee), tolerance = 1e-5)
  unstratified <- quiet(surepipe(Surv(time, status) ~ age + ph.ecog, lung, lambda = 1e-6))
  referee <- survival::coxph(Surv(time, status) ~ age + ph.ecog, lung)
  expect_equal(c(AIC(unstratified), BIC(unstratified)), c(AIC(referee), BIC(referee)), tolerance = 1e-8)
  expect_length(predict(fit, lung[1:3, ]), 3)
  expect_error(surepipe(Surv(time, status) ~ age:strata(sex), lung), "term of its own")
  expect_error(surepipe(Surv(time, status) ~ age + cluster(inst), lung), "cluster(inst)", fixed = TRUE)
  expect_error(surepipe(Surv(time, status) ~ age, lung, family = "gaussian"), "expected the family cox")
})

test_that("successes and failures are those of glm", {
  skip_without_program()
  fit <- quiet(surepipe(cbind(ncases, ncontrols) ~ agegp + alcgp, esoph, family = "binomial", lambda = 1e-6))
  referee <- glm(cbind(ncases, ncontrols) ~ agegp + alcgp, data = esoph, family = "binomial")
  expect_equal(coef(fit), coef(referee), tolerance = 1e-5)
  expect_equal(c(deviance(fit), AIC(fit), BIC(fit)), c(deviance(referee), AIC(referee), BIC(referee)), tolerance = 1e-6)
  expect_equal(residuals(fit, "deviance"), residuals(referee, "deviance"), tolerance = 1e-4)
})

test_that("a fit has what lm has, and each penalty its own path", {
  skip_without_program()
  fit <- quiet(surepipe(mpg ~ wt + hp, mtcars, penalty = "ols"))
  referee <- lm(mpg ~ wt + hp, mtcars)
  expect_equal(c(logLik(fit)), c(logLik(referee)), tolerance = 1e-8)
  expect_equal(c(AIC(fit), BIC(fit), deviance(fit)), c(AIC(referee), BIC(referee), deviance(referee)), tolerance = 1e-8)
  expect_equal(deparse(formula(fit)), "mpg ~ wt + hp")
  expect_equal(confint(fit, "wt")[1, ], confint(referee)["wt", ], tolerance = 0.05, ignore_attr = TRUE)
  for (penalty in c("ridge", "elastic-net")) {
    chosen <- quiet(surepipe(mpg ~ ., mtcars, penalty = penalty))
    expect_gt(chosen$df, 2)
    expect_lt(chosen$risk, 1.2 * quiet(surepipe(mpg ~ ., mtcars))$risk)
  }
})

test_that("rows of a cluster are left out together", {
  skip_without_program()
  set.seed(8)
  patient <- rep(paste0("p", 1:30), each = 6)
  x <- matrix(rnorm(30 * 5), 30)[rep(1:30, each = 6), ] + 0.1 * rnorm(900)
  table <- data.frame(y = x[, 1] + rnorm(30)[rep(1:30, each = 6)] + 0.2 * rnorm(180), x, patient)
  alone <- quiet(surepipe(y ~ . - patient, table, criterion = "alo"))
  together <- quiet(surepipe(y ~ . - patient, table, clusters = patient))
  expect_identical(coef(quiet(surepipe(y ~ ., table, clusters = patient))), coef(together))
  one <- quiet(surepipe(y ~ ., table, penalty = "ridge", lambda = 2, clusters = patient))
  expect_identical(one$criterion, "lgo")
  expect_identical(one$risk, one$result$criteria$lgo)
  expect_error(surepipe(y ~ ., table, penalty = "ols", criterion = "cv"), "criterion is cv, which is not known of one weight")
  expect_identical(quiet(surepipe(y ~ ., table, penalty = "ols", criterion = "alo"))$criterion, "alo")
  expect_error(surepipe(y ~ ., table, alpha = 0.5), "elastic-net")
  expect_equal(together$criterion, "lgo")
  expect_gt(together$risk, alone$risk)
  expect_length(predict(together, table[1:3, ]), 3)
  expect_error(surepipe(x, table$y, clusters = 1:3), "clusters has 3 values")
  folds <- quiet(surepipe(y ~ . - patient, table, criterion = "cv", clusters = patient, options = list(folds = 5)))
  expect_equal(folds$risk, together$risk, tolerance = 0.3)
})

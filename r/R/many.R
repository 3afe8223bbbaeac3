# Several responses: a list of fits, one for each, by the names of the columns of y.
of_each <- function(fits, f) structure(lapply(fits, f), class = "surepipe_many")

beside <- function(fits, f) vapply(unclass(fits), f, f(fits[[1]]))

print.surepipe_many <- function(x, digits = max(3, getOption("digits") - 3), ...) {
  b <- coef(x)
  cat("\nCall:  ", paste(deparse(x[[1]]$call), collapse = "\n"), "\n\nCoefficients that are not zero:\n", sep = "")
  print(signif(b[rowSums(b != 0) > 0, , drop = FALSE], digits))
  for (name in names(x)) cat("\n", name, ": ", risk_line(x[[name]], digits), "\n", sep = "")
  invisible(x)
}

coef.surepipe_many <- function(object, ...) beside(object, coef)

fitted.surepipe_many <- function(object, ...) beside(object, fitted)

residuals.surepipe_many <- function(object, ...) beside(object, function(fit) residuals(fit, ...))

predict.surepipe_many <- function(object, newdata, type = c("response", "link"), na.action = na.pass, ...) {
  no_more("predict", "newdata, type and na.action", ...)
  type <- match.arg(type)
  if (missing(newdata)) newdata <- NULL
  do.call(cbind, lapply(unclass(object), function(fit) predict(fit, newdata, type, na.action)))
}

summary.surepipe_many <- function(object, ...) lapply(unclass(object), summary)

nobs.surepipe_many <- function(object, ...) nobs(object[[1]])

as.data.frame.surepipe_many <- function(x, row.names = NULL, optional = FALSE, ...) {
  do.call(rbind, lapply(names(x), function(name) {
    points <- as.data.frame(x[[name]])
    if (!is.null(points)) cbind(response = name, points)
  }))
}

criterion_label <- function(name) {
  if (is.null(name)) return("SURE")
  switch(name, sure = "SURE", gcv = "generalized cross-validation", alo = "leave-one-out",
         cv = "cross-validation", lgo = "leave-group-out", aic = "AIC", bic = "BIC", name)
}

print.surepipe <- function(x, digits = max(3, getOption("digits") - 3), ...) {
  cat("\nCall:  ", paste(deparse(x$call), collapse = "\n"), "\n\n", sep = "")
  cat("Coefficients that are not zero:\n")
  b <- x$coefficients
  print(if (is.matrix(b)) b[rowSums(b != 0) > 0, , drop = FALSE] else b[b != 0], digits = digits)
  cat("\n", risk_line(x, digits), "\n", sep = "")
  invisible(x)
}

# What is known of the risk; full says what a part of it leaves out.
risk_line <- function(x, digits, full = FALSE) {
  df <- format(x$df, digits = digits)
  if (isTRUE(x$df_stderr > 1e-9 * x$df)) df <- paste(df, "+-", format(x$df_stderr, digits = 2)) # from probes
  weight <- if (!is.na(x$lambda)) paste(", weight", format(x$lambda, digits = digits)) else ""
  text <- sprintf("%s%s: %s degrees of freedom", x$penalty, weight, df)
  if (!is.na(x$risk)) {
    text <- sprintf("%s, %s %s", text, criterion_label(x$criterion), format(x$risk, digits = digits))
    if (!is.na(x$risk_stderr)) text <- sprintf("%s +- %s", text, format(x$risk_stderr, digits = 2))
    text <- paste0(text, unit_of(x, digits))
  }
  lines <- text
  if (isTRUE(is.finite(x$optimism))) {
    lines <- c(lines, sprintf("On average too small by %s +- %s, because the weight is the one where it is least",
                              format(x$optimism, digits = 2), format(x$summary$optimism_stderr, digits = 2)))
    if (full) lines <- c(lines, strwrap(paste("It is", x$summary$optimism_leaves_out), indent = 2, exdent = 2))
  }
  for (a in x$audit) {
    lines <- c(lines, sprintf("Held out by refits: %s +- %s, %s of the same observations %s",
                              format(a$error, digits = digits), format(a$error_stderr, digits = 2), a$criterion,
                              format(a$criterion_says, digits = digits)))
  }
  if (!isTRUE(x$trusted)) lines <- c(lines, "This result is marked: see its warnings.")
  paste(lines, collapse = "\n")
}

# unit_of says what the criterion is a mean of where that is no squared error; of an image it is a sum, and SURE is one.
unit_of <- function(x, digits) {
  sum <- !is.null(x$image) || is.null(x$criterion) || x$criterion == "sure"
  values <- Filter(length, list(x$image, x$y, x$mu_hat))
  if (sum && length(values)) return(sprintf(", %s per value", format(x$risk / length(values[[1]]), digits = digits)))
  if (is.na(x$risk_stderr)) return("") # AIC and BIC
  loss <- "mean of minus the log-likelihood"
  switch(c(x$family, "")[[1]], binomial = , multinomial = sprintf(" (%s)", loss),
         poisson = sprintf(" (%s, without log y!)", loss), cox = " (mean of minus the partial log-likelihood)", "")
}

summary.surepipe <- function(object, ...) {
  structure(object[c("call", "family", "table", "penalty", "lambda", "df", "df_stderr", "criterion", "risk", "risk_stderr",
                     "optimism", "audit", "trusted", "warnings", "nobs", "p", "summary")], class = "summary.surepipe")
}

print.summary.surepipe <- function(x, digits = max(3, getOption("digits") - 3), ...) {
  cat("\nCall:  ", paste(deparse(x$call), collapse = "\n"), "\n\n", sep = "")
  table <- x$table[x$table$estimate != 0, , drop = FALSE]
  known <- any(!is.na(table$std.error))
  cat("Coefficients", if (known) ", and without the bias of the penalty with their standard errors", ":\n", sep = "")
  table$`z value` <- table$debiased / table$std.error
  names(table)[1:3] <- c("Estimate", "Debiased", "Std. Error")
  if (!known) table <- table["Estimate"] # several responses or classes in one fit have no errors
  print(as.matrix(table), digits = digits, na.print = "")
  columns <- x$table[!grepl("(Intercept)", rownames(x$table), fixed = TRUE), ]
  cat("\n", sum(columns$estimate == 0), " of ", nrow(columns), " coefficients are zero; ", x$nobs, " rows.\n", sep = "")
  cat(risk_line(x, digits, full = TRUE), "\n", sep = "")
  said <- Filter(function(w) w$code != "relative-weight" || is.null(x$criterion), x$warnings) # it is about SURE
  for (w in said) cat(strwrap(paste0("[", w$code, "] ", w$text), exdent = 2), sep = "\n")
  invisible(x)
}

coef.surepipe <- function(object, ...) object$coefficients

nobs.surepipe <- function(object, ...) object$nobs

formula.surepipe <- function(x, ...) {
  if (is.null(x$terms)) stop("the fit is of a matrix, and has no formula", call. = FALSE)
  stats::formula(x$terms)
}

# The deviance of the program, for numbers the residual sum of squares.
deviance.surepipe <- function(object, ...) {
  known <- object$result[["deviance"]] # by $ a longer name would do
  number(if (is.null(known)) object$result[["residual"]] else known)
}

# The log-likelihood by which AIC is the program's. An unknown variance of the noise counts as a parameter, as of lm.
logLik.surepipe <- function(object, ...) {
  k <- object$df + (object$family == "gaussian" && is.null(object$result[["sigma2"]]))
  nobs <- if (object$family == "cox") sum(object$y) else object$nobs # as coxph: the events
  structure(k - number(object$result$aic) / 2, df = k, nobs = nobs, class = "logLik")
}

# Normal intervals about the coefficients without the bias of the penalty; they take the choice of the weight as given.
confint.surepipe <- function(object, parm, level = 0.95, ...) {
  table <- if (missing(parm)) object$table else object$table[parm, , drop = FALSE]
  at <- c((1 - level) / 2, (1 + level) / 2)
  bounds <- table$debiased + outer(table$std.error, stats::qnorm(at))
  dimnames(bounds) <- list(rownames(table), paste(format(100 * at, trim = TRUE, digits = 3), "%"))
  bounds
}

fitted.surepipe <- function(object, ...) napredict(object$na.action, object$fitted.values)

residuals.surepipe <- function(object, type = c("response", "deviance"), ...) {
  type <- match.arg(type)
  if (object$family %in% c("cox", "multinomial")) {
    stop("the family is ", object$family, ", which has no residuals here", call. = FALSE)
  }
  y <- object$y
  mu <- object$fitted.values
  r <- y - mu
  if (type == "deviance" && object$family != "gaussian") {
    unit <- switch(object$family, binomial = stats::binomial(), poisson = stats::poisson())
    r <- sign(r) * sqrt(unit$dev.resids(y, mu, if (is.null(object$trials)) 1 else object$trials))
  }
  naresid(object$na.action, r)
}

predict.surepipe <- function(object, newdata, type = c("response", "link", "class"), na.action = na.pass, ...) {
  no_more("predict", "newdata, type and na.action", ...)
  type <- match.arg(type)
  if (type == "class" && !object$family %in% c("binomial", "multinomial")) {
    stop("type is class, which is for the families binomial and multinomial; this is ", object$family, call. = FALSE)
  }
  if (missing(newdata) || is.null(newdata)) {
    eta <- napredict(object$na.action, object$linear.predictors)
  } else {
    eta <- linear_predictor(object, newdata, na.action)
  }
  if (type == "link") return(eta)
  mu <- inverse_link(object$family)(eta)
  if (type == "response") return(mu)
  if (object$family == "multinomial") {
    best <- apply(mu, 1, function(p) if (anyNA(p)) NA else which.max(p))
    return(factor(object$levels[best], object$levels))
  }
  one <- as.numeric(mu > 0.5)
  if (is.null(object$levels)) one else factor(object$levels[one + 1], object$levels)
}

# no_more rejects arguments that a method does not know.
no_more <- function(method, expected, ...) {
  extra <- list(...)
  if (!length(extra)) return(invisible())
  named <- if (is.null(names(extra))) "" else names(extra)
  named[named == ""] <- "without a name"
  stop(method, " has no argument ", paste(named, collapse = ", "), ": expected ", expected, call. = FALSE)
}

linear_predictor <- function(object, newdata, na.action) {
  if (!is.null(object$terms)) {
    terms <- delete.response(object$terms)
    frame <- model.frame(terms, newdata, na.action = na.action, xlev = object$xlevels)
    if (!is.null(classes <- attr(terms, "dataClasses"))) .checkMFClasses(classes, frame)
    x <- model.matrix(terms, frame, contrasts.arg = object$contrasts)
    x <- x[, attr(x, "assign") > 0 & !attr(x, "assign") %in% object$strata, drop = FALSE]
    shift <- stats::model.offset(frame)
    if (!is.null(object$call$offset)) {
      shift <- (if (is.null(shift)) 0 else shift) + eval(object$call$offset, newdata, environment(object$terms))
    }
  } else {
    x <- as.matrix(newdata)
    shift <- NULL
    if (!is.null(object$offset)) {
      stop("the fit has an offset, which newdata, a matrix, does not: fit it by a formula", call. = FALSE)
    }
    if (ncol(x) != object$p) {
      stop("newdata has ", ncol(x), " columns, expected ", object$p, call. = FALSE)
    }
  }
  linear(object, x) + if (is.null(shift)) 0 else shift
}

as.data.frame.surepipe <- function(x, row.names = NULL, optional = FALSE, ...) x$points

plot.surepipe <- function(x, what = c("criterion", "path"), ...) {
  if (is.null(x$points)) stop("a fit at a single weight has no path: nothing to plot", call. = FALSE)
  if (match.arg(what) == "path") return(plot_path(x, ...))
  p <- x$points
  value <- p[[x$criterion]]
  bar <- p[[paste0(x$criterion, "_stderr")]]
  keep <- is.finite(value)
  low <- ifelse(is.finite(bar), value - bar, value)
  high <- ifelse(is.finite(bar), value + bar, value)
  plot_points(log(p$lambda[keep]), value[keep], low[keep], high[keep], log(x$lambda), criterion_label(x$criterion), ...)
  at <- pretty(seq_len(sum(keep)), 8)
  at <- at[at >= 1 & at <= sum(keep)]
  axis(3, log(p$lambda[keep])[at], round(p$df[keep][at], 1), tick = FALSE, line = -0.5)
  invisible(x)
}

# plot_path draws the coefficients over the weight, named at its least value, and a line at the weight that is chosen.
plot_path <- function(x, xlab = "log(lambda)", ylab = "coefficient", col = grDevices::hcl.colors(12, "Dark 3"), lty = 1,
                      most = 12, ...) {
  if (is.null(x$path)) {
    stop("the fit has no coefficients along the path, which are kept of at most ", widest_path, " columns",
         call. = FALSE)
  }
  b <- x$path[, !grepl("(Intercept)", colnames(x$path), fixed = TRUE), drop = FALSE]
  at <- log(x$points$lambda)
  graphics::matplot(at, b, type = "l", lty = lty, col = col, xlab = xlab, ylab = ylab,
                    xlim = range(at) - c(0.12, 0) * diff(range(at)), ...)
  abline(v = log(x$lambda), lty = 2)
  named <- utils::head(order(-abs(b[1, ])), most)
  graphics::text(at[[1]], b[1, named], colnames(b)[named], pos = 2, cex = 0.7,
                 col = rep_len(col, ncol(b))[named])
  invisible(x)
}

plot_points <- function(x, y, low, high, chosen, label, xlab = "log(lambda)", ylab = label, pch = 20, col = "#b2182b",
                        ylim = range(low, high), ...) {
  plot(x, y, xlab = xlab, ylab = ylab, pch = pch, col = col, ylim = ylim, ...)
  segments(x, low, x, high, col = "grey60")
  abline(v = chosen, lty = 2)
}

tidy.surepipe <- function(x, ...) {
  frame <- data.frame(term = rownames(x$table), estimate = x$table$estimate, debiased = x$table$debiased,
                      std.error = x$table$std.error, lambda = x$lambda)
  frame[frame$estimate != 0, ]
}

glance.surepipe <- function(x, ...) {
  data.frame(lambda = x$lambda, df = x$df, criterion = if (is.null(x$criterion)) "sure" else x$criterion,
             risk = x$risk, risk.std.error = x$risk_stderr, nobs = x$nobs, trusted = x$trusted)
}

augment.surepipe <- function(x, data = NULL, ...) {
  frame <- data.frame(.fitted = if (x$family == "multinomial") predict(x, type = "class") else unname(fitted(x)))
  if (!x$family %in% c("cox", "multinomial")) frame$.resid <- unname(residuals(x))
  if (is.null(data)) return(frame)
  left_out <- if (nrow(frame) < nrow(data)) match(names(x$na.action), rownames(data))
  cbind(if (length(left_out)) data[-left_out, , drop = FALSE] else data, frame)
}

# surepipe_run asks for any problem of the program, by the names of its arrays and flags.
surepipe_run <- function(problem, arrays, options = list(), criterion = NULL, rule = NULL) {
  if (!is.list(arrays) || is.null(names(arrays))) {
    stop("arrays is of type ", typeof(arrays), ", expected a list of arrays with their names, such as list(y = y)",
         call. = FALSE)
  }
  for (name in names(arrays)) {
    if (!is.numeric(arrays[[name]])) {
      stop("the array ", name, " is of type ", typeof(arrays[[name]]), ", expected numbers", call. = FALSE)
    }
  }
  weights <- intersect(c("lambda", "lambda2", "gamma"), names(options))
  grids <- weights[vapply(options[weights], is_grid, NA)]
  single <- !length(grids)
  later <- c(of_sweeps, if (!single) weights)
  open <- named(utils::modifyList(list(problem = problem), options[setdiff(names(options), later)]))
  arrays <- lapply(arrays, put)
  estimator <- call_worker("open", options = open, arrays = arrays)$estimator
  on.exit({
    call_worker("close", estimator = estimator)
    unlink(unlist(lapply(arrays, function(a) a$npy)))
  })
  wanted <- list(estimator = estimator, `return` = I(c("mu_hat", "b")))
  got <- if (single) {
    do.call(call_worker, c("fit", wanted))
  } else {
    grid <- lapply(options[weights], as.character)
    more <- c(list(criterion = criterion, rule = rule), options[intersect(names(options), of_sweeps)])
    do.call(call_worker, c("sweep", wanted, grid, named(more)))
  }
  fit <- c(outcome(got, single, criterion), list(sigma2 = number(got$result$sigma2), penalty = problem,
                                      mu_hat = get_array(got$mu_hat), b = get_array(got$b)))
  warn(fit$warnings)
  structure(fit, class = "surepipe_run")
}

print.surepipe_run <- function(x, digits = max(3, getOption("digits") - 3), ...) {
  cat(risk_line(x, digits), "\n", sep = "")
  invisible(x)
}

plot.surepipe_run <- function(x, ...) {
  if (!is.null(x$points) && any(c("lambda2", "gamma") %in% names(x$points))) {
    stop("plot draws sweeps of one weight; this has two, in x$points", call. = FALSE)
  }
  plot.surepipe(x, ...)
}

# separate splits a matrix into one of low rank and sparse outliers: robust PCA.
separate <- function(x, lambda = NULL, gamma = NULL, criterion = NULL, sigma2 = NULL, options = list()) {
  m <- if (is.data.frame(x)) data.matrix(x) else as.matrix(x)
  if (!is.numeric(m)) stop("x is of type ", typeof(m), ", expected numbers", call. = FALSE)
  if (anyNA(m)) stop("x has missing entries: complete() fills them", call. = FALSE)
  weights <- list(lambda = if (is.null(lambda)) "0.05max:max:8" else lambda,
                  gamma = if (is.null(gamma)) "0.05max:max:8" else gamma)
  grids <- any(vapply(weights, function(w) is.character(w) && grepl(":", w, fixed = TRUE), NA))
  fit <- surepipe_run("robust-pca", list(y = m), utils::modifyList(named(c(weights, list(sigma2 = sigma2))), options),
                      criterion)
  parts <- fit$b # row by row, the part of low rank before the sparse one
  fit$low.rank <- structure(parts[1, , ], dimnames = dimnames(m))
  fit$sparse <- structure(parts[2, , ], dimnames = dimnames(m))
  fit$gamma <- number(fit$result$gamma)
  class(fit) <- c("surepipe_separation", class(fit))
  fit
}

print.surepipe_separation <- function(x, digits = max(3, getOption("digits") - 3), ...) {
  cat("Matrix of ", paste(dim(x$low.rank), collapse = " x "), ": rank ", qr(x$low.rank)$rank, ", ",
      sum(x$sparse != 0), " outliers\n", risk_line(x, digits), "\n", sep = "")
  invisible(x)
}

# complete fills the missing entries of a table of numbers by a matrix of low rank, with effects of rows and columns.
complete <- function(x, effects = "auto", lambda = NULL, criterion = NULL, standardize = NULL,
                     options = list()) {
  if (is.data.frame(x)) {
    other <- names(x)[!vapply(x, function(column) is.numeric(column) || is.logical(column), NA)]
    if (length(other)) stop("column ", other[[1]], " of x holds no numbers: leave it out", call. = FALSE)
  }
  m <- if (is.data.frame(x)) data.matrix(x) else as.matrix(x)
  if (!is.numeric(m)) stop("x is of type ", typeof(m), ", expected numbers", call. = FALSE)
  seen <- which(!is.na(t(m)))
  if (!length(seen)) stop("x has no observed entry", call. = FALSE)
  if (length(seen) == length(m)) stop("x has no missing entry: nothing to complete", call. = FALSE)
  open <- list(problem = "matrix-completion", effects = if (length(effects)) paste(effects, collapse = ",") else "none")
  single <- one_weight(lambda)
  if (single) open$lambda <- lambda
  open$standardize <- if (is.null(standardize) && is.data.frame(x)) "auto" else standardize
  arrays <- list(y = put(t(m)[seen]), indices = put(seen - 1), shape = put(dim(m)))
  estimator <- call_worker("open", options = named(utils::modifyList(named(open), options)), arrays = arrays,
                           columns = if (length(colnames(m))) I(colnames(m)))$estimator
  on.exit({
    call_worker("close", estimator = estimator)
    unlink(unlist(lapply(arrays, function(a) a$npy)))
  })
  got <- if (single) {
    call_worker("fit", estimator = estimator, keep = TRUE, `return` = I("mu_hat"))
  } else {
    call_worker("sweep", estimator = estimator, lambda = grid_of(lambda), criterion = criterion, keep = TRUE,
                `return` = I("mu_hat"))
  }
  predicted <- get_array(call_worker("predict", fit = got$fit)$values)
  call_worker("close", fit = got$fit)
  estimate <- t(m)
  estimate[seen] <- get_array(got$mu_hat)
  estimate[-seen] <- predicted
  estimate <- t(estimate)
  completed <- m
  completed[is.na(m)] <- estimate[is.na(m)]
  fit <- of_image(got, single, "surepipe_completion", criterion)
  fit$completed <- completed
  fit$estimate <- estimate
  fit
}

# denoise removes normal noise from an image by its wavelets or by total variation.
denoise <- function(image, by = c("wavelets", "tv"), sigma2 = NULL, options = list()) {
  by <- match.arg(by)
  if (!is.numeric(image) || is.null(dim(image))) stop("image is no matrix or array of numbers", call. = FALSE)
  gaps <- anyNA(image)
  if (gaps && by != "tv") stop("image has missing values: by = \"tv\" fills them in", call. = FALSE)
  arrays <- list(y = put(image))
  on.exit(unlink(unlist(lapply(arrays, function(a) a$npy))))
  open <- utils::modifyList(named(list(sigma2 = sigma2, missing = if (gaps) "drop")), options)
  got <- call_worker("denoise", by = by, options = open, arrays = arrays, `return` = I("image"))
  fit <- of_image(got, is.null(got$summary), "surepipe_image")
  fit$noisy <- image
  fit$image <- array(get_array(got$image), dim(image))
  fit
}

of_image <- function(got, single, class, asked = NULL) {
  fit <- c(outcome(got, single, asked), list(sigma2 = number(got$result$sigma2), penalty = got$result$problem))
  warn(fit$warnings)
  structure(fit, class = class)
}

print.surepipe_completion <- function(x, digits = max(3, getOption("digits") - 3), ...) {
  cat("Matrix of ", nrow(x$completed), " x ", ncol(x$completed), ", completed\n", risk_line(x, digits), "\n", sep = "")
  invisible(x)
}

print.surepipe_image <- function(x, digits = max(3, getOption("digits") - 3), ...) {
  cat("Image of ", paste(dim(x$image), collapse = " x "), ", denoised; sigma2 ", format(x$sigma2, digits = digits), "\n",
      risk_line(x, digits), "\n", sep = "")
  invisible(x)
}

plot.surepipe_completion <- function(x, ...) plot.surepipe(x, ...)

plot.surepipe_image <- function(x, ...) {
  if (length(dim(x$image)) != 2) stop("plot draws images of one channel; this has ", length(dim(x$image)),
                                      " axes", call. = FALSE)
  old <- par(mfrow = c(1, 2), mar = c(1, 1, 2, 1))
  on.exit(par(old))
  range <- range(x$noisy, na.rm = TRUE)
  for (part in c("noisy", "image")) {
    image(t(x[[part]][nrow(x[[part]]):1, ]), zlim = range, col = grey.colors(256, 0, 1), axes = FALSE, asp =
            nrow(x$image) / ncol(x$image), main = c(noisy = "as given", image = "denoised")[[part]], ...)
  }
  invisible(x)
}

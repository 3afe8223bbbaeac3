surepipe <- function(x, ...) UseMethod("surepipe")

surepipe.formula <- function(formula, data,
                             family = c("gaussian", "binomial", "poisson", "multinomial", "mgaussian", "cox"),
                             penalty = c("lasso", "ridge", "elastic-net", "group-lasso", "ols"), subset, na.action,
                             weights, offset, clusters, contrasts = NULL, ...) {
  call <- match.call()
  call[[1]] <- quote(surepipe)
  frame <- call[c(1, match(c("formula", "data", "subset", "na.action", "weights", "offset", "clusters"), names(call), 0L))]
  frame$drop.unused.levels <- TRUE
  frame[[1]] <- quote(stats::model.frame)
  frame$formula <- with_survival(formula)
  labels <- if (is.name(call$clusters)) as.character(call$clusters)
  if (!missing(data) && "." %in% all.vars(formula) && !any(labels %in% all.vars(formula))) { # they are none of "."
    frame$formula <- stats::formula(stats::terms(frame$formula, data = data[setdiff(names(data), labels)]))
  }
  frame <- eval(frame, parent.frame())
  terms <- attr(frame, "terms")
  X <- model.matrix(terms, frame, contrasts)
  assign <- attr(X, "assign")
  intercept <- attr(terms, "intercept") == 1
  y <- model.response(frame)
  family <- if (missing(family) && inherits(y, "Surv")) "cox" else as_family(family)
  strata <- if (family == "cox") strata_of(terms, frame)
  used <- assign > 0 & !assign %in% strata$terms
  more <- list(...)
  if (!is.null(strata)) {
    if (!is.null(more$strata)) stop("strata are in the formula and an argument, expected one of both", call. = FALSE)
    more$strata <- strata$values
  }
  fit <- do.call(surepipe.default, c(list(X[, used, drop = FALSE], y, family = family, penalty = match.arg(penalty),
                                          intercept = intercept, groups = assign[used],
                                          weights = stats::model.weights(frame), offset = stats::model.offset(frame),
                                          clusters = frame[["(clusters)"]]), more))
  add <- function(fit) {
    fit$call <- call
    fit$terms <- terms
    fit$strata <- strata$terms
    fit$contrasts <- attr(X, "contrasts")
    fit$xlevels <- .getXlevels(terms, frame)
    fit$na.action <- attr(frame, "na.action")
    fit
  }
  if (inherits(fit, "surepipe_many")) of_each(fit, add) else add(fit)
}

# A formula that finds Surv and strata where survival is installed and not attached, as coxph's does.
with_survival <- function(formula) {
  formula <- stats::as.formula(formula)
  missing <- Filter(function(f) !exists(f, environment(formula), mode = "function"),
                    intersect(c("Surv", "strata"), all.names(formula)))
  if (length(missing) && requireNamespace("survival", quietly = TRUE)) {
    found <- lapply(stats::setNames(nm = missing), getExportedValue, ns = "survival")
    environment(formula) <- list2env(found, parent = environment(formula))
  }
  formula
}

# strata_of are the terms strata() of a formula of times, as their numbers, and the stratum of each row; NULL without any.
strata_of <- function(terms, frame) {
  labels <- attr(terms, "term.labels")
  other <- grep("(^|[^[:alnum:]_.])(cluster|frailty|pspline|ridge|tt)\\(", labels, value = TRUE)
  if (length(other)) stop("the formula has ", other[[1]], ", which is not known here: leave it out", call. = FALSE)
  at <- grep("(^|[^[:alnum:]_.])strata\\(", labels)
  if (!length(at)) return(NULL)
  if (any(attr(terms, "order")[at] > 1)) {
    stop("the formula has ", labels[at][attr(terms, "order")[at] > 1][[1]], ": expected strata() as a term of its own",
         call. = FALSE)
  }
  list(terms = at, values = as.integer(interaction(frame[labels[at]], drop = TRUE)))
}

surepipe.default <- function(x, y, family = c("gaussian", "binomial", "poisson", "multinomial", "mgaussian", "cox"),
                             penalty = c("lasso", "ridge", "elastic-net", "group-lasso", "ols"), lambda = NULL,
                             alpha = NULL, criterion = NULL, sigma2 = NULL, rule = NULL, groups = NULL,
                             weights = NULL, offset = NULL, clusters = NULL, penalty.factor = NULL, lower = NULL, upper = NULL,
                             intercept = TRUE, standardize = TRUE, strata = NULL, ties = c("efron", "breslow"),
                             options = list(), ...) {
  call <- match.call()
  call[[1]] <- quote(surepipe)
  extra <- list(...)
  if (length(extra)) {
    stop("no argument ", names(extra)[[1]], ": options of the program go into options = list(...)", call. = FALSE)
  }
  family <- if (missing(family) && inherits(y, "Surv")) "cox" else as_family(family)
  penalty <- match.arg(penalty)
  if (penalty == "elastic-net" && is.null(alpha) && is.null(options$lambda2)) alpha <- 0.5
  if (penalty != "elastic-net" && !is.null(alpha)) stop("alpha is for penalty = \"elastic-net\"", call. = FALSE)
  x <- as.matrix(x)
  if (!is.numeric(x)) stop("x is of type ", typeof(x), ", expected numbers", call. = FALSE)
  if (!ncol(x)) stop(errorCondition("x has no columns, expected at least one", class = "surepipe_error"))
  if (is.null(colnames(x))) colnames(x) <- paste0("V", seq_len(ncol(x)))
  if (!all(is.finite(x))) {
    at <- which(!is.finite(x), arr.ind = TRUE)[1, ]
    stop(errorCondition(paste0("x holds ", x[at[[1]], at[[2]]], " in row ", at[[1]], ", column ", colnames(x)[at[[2]]],
                               ", expected finite numbers"), class = "surepipe_error"))
  }
  response <- if (family == "cox") as_times(y) else as_response(y, family)
  if (family == "cox") intercept <- FALSE
  if (NROW(response$y) != nrow(x)) {
    stop("y has ", NROW(response$y), " values, expected ", nrow(x), ", one for each row of x", call. = FALSE)
  }
  if (!all(is.finite(response$y))) {
    at <- (which(!is.finite(response$y))[[1]] - 1) %% nrow(x) + 1
    stop(errorCondition(paste0("y holds ", response$y[!is.finite(response$y)][[1]], " in row ", at,
                               ", expected finite numbers"), class = "surepipe_error"))
  }
  cox <- switch(match.arg(ties), efron = "cox-efron", breslow = "cox")
  open <- list(problem = penalty, intercept = if (family != "cox") intercept,
               standardize = if (penalty != "ols") standardize,
               loss = switch(family, gaussian = NULL, binomial = "logistic", poisson = "poisson", multinomial = "multinomial",
                             mgaussian = "mgaussian", cox = cox),
               sigma2 = sigma2, alpha = alpha)
  open <- utils::modifyList(named(open), options[setdiff(names(options), of_sweeps)])
  arrays <- list(X = put(x), y = put(response$y))
  coded <- function(name, labels) {
    if (anyNA(labels)) stop(name, " has missing labels, expected one for each row", call. = FALSE)
    if (!is.null(labels)) match(labels, unique(labels)) - 1
  }
  rows <- c(list(weights = weights, offset = offset, strata = coded("strata", strata),
                 clusters = coded("clusters", clusters)),
            response[c("time", "start", "trials")])
  columns <- list(factors = penalty.factor, lower = lower, upper = upper)
  for (name in names(c(rows, columns))) {
    values <- c(rows, columns)[[name]]
    if (is.null(values)) next
    expected <- if (name %in% names(rows)) nrow(x) else ncol(x)
    if (name %in% names(columns) && length(values) == 1) values <- rep(values, expected)
    if (length(values) != expected || !is.numeric(values)) {
      stop(name, " has ", length(values), " values of type ", typeof(values), ", expected ", expected, " numbers",
           call. = FALSE)
    }
    arrays[[if (name == "clusters") "row_groups" else name]] <- put(values)
  }
  if (penalty == "group-lasso") arrays$groups <- put(group_numbers(groups, ncol(x)))
  single <- penalty == "ols" || one_weight(lambda)
  if (single && penalty != "ols") open$lambda <- lambda
  if (single && identical(criterion, "alo")) open$alo <- TRUE
  estimator <- call_worker("open", options = named(open), arrays = arrays, columns = I(colnames(x)))$estimator
  on.exit({
    call_worker("close", estimator = estimator)
    unlink(unlist(lapply(arrays, function(a) a$npy)))
  })
  got <- if (single) {
    call_worker("fit", estimator = estimator, coefficients = TRUE)
  } else {
    asked <- list("sweep", estimator = estimator, lambda = grid_of(lambda), criterion = criterion,
                  rule = rule, coefficients = TRUE, path = ncol(x) <= widest_path)
    do.call(call_worker, c(asked, options[intersect(names(options), of_sweeps)]))
  }
  outcomes <- if (family %in% c("multinomial", "mgaussian")) response$levels
  one <- function(got, y) {
    fit <- list(call = call, family = family, penalty = penalty, nobs = nrow(x), p = ncol(x), levels = response$levels)
    fit <- c(fit, parts(got, colnames(x), single, outcomes, criterion))
    fit$path <- path_of(got, colnames(x), outcomes)
    class(fit) <- "surepipe"
    fit$linear.predictors <- linear(fit, x)
    if (!is.null(offset)) fit$linear.predictors <- fit$linear.predictors + offset
    fit$offset <- offset
    fit$fitted.values <- inverse_link(family)(fit$linear.predictors)
    fit$trials <- response$trials
    fit$y <- if (is.null(fit$trials)) y else y / fit$trials
    fit
  }
  if (is.null(got$responses)) {
    fit <- one(got, response$y)
    warn(fit$warnings)
    return(fit)
  }
  fits <- lapply(seq_along(got$responses), function(k) one(got$responses[[k]], response$y[, k]))
  names(fits) <- colnames(response$y)
  warn(unique(do.call(c, lapply(fits, function(fit) fit$warnings))))
  structure(fits, class = "surepipe_many")
}

# linear are the linear predictors of a fit, without an offset: a vector, of several classes a column for each.
linear <- function(fit, x) {
  b <- as.matrix(fit$coefficients)
  at <- rownames(b) == "(Intercept)"
  eta <- x %*% b[!at, , drop = FALSE]
  if (any(at)) eta <- sweep(eta, 2, b[at, ], "+")
  if (is.matrix(fit$coefficients)) eta else stats::setNames(eta[, 1], rownames(x))
}

# as_response are numbers, a column for each of several responses, and of a factor or of texts its two levels, of which
# the second is 1, as in glm, or all of its levels with the family multinomial. Two columns are successes and failures
# with the family binomial.
as_response <- function(y, family) {
  if (inherits(y, "Surv")) stop("y is a Surv object, expected the family cox", call. = FALSE)
  if (is.data.frame(y)) y <- as.matrix(y)
  if (is.matrix(y) && ncol(y) > 1 && is.numeric(y) && family %in% c("gaussian", "poisson", "mgaussian")) {
    if (is.null(colnames(y))) colnames(y) <- paste0("y", seq_len(ncol(y)))
    return(list(y = y, levels = if (family == "mgaussian") colnames(y)))
  }
  if (family == "mgaussian") stop("y has one column, or texts: expected numbers in several columns", call. = FALSE)
  if (family == "binomial" && is.matrix(y) && ncol(y) == 2 && is.numeric(y)) {
    return(list(y = unname(y[, 1]), trials = unname(rowSums(y))))
  }
  if (is.matrix(y) && ncol(y) != 1) {
    stop("y has ", ncol(y), " columns of type ", typeof(y), ", expected one with the family ", family, call. = FALSE)
  }
  if (is.character(y) || family == "multinomial") y <- factor(y)
  if (family == "multinomial") {
    if (nlevels(y) < 2) stop("y has ", nlevels(y), " levels, expected at least 2", call. = FALSE)
    return(list(y = as.numeric(y) - 1, levels = levels(y)))
  }
  if (is.factor(y)) {
    if (family != "binomial") stop("y is a factor: expected numbers with the family ", family,
                                    "; binomial and multinomial take factors", call. = FALSE)
    if (nlevels(y) != 2) {
      stop("y has ", nlevels(y), " levels, expected 2; family = \"multinomial\" takes more", call. = FALSE)
    }
    return(list(y = as.numeric(y) - 1, levels = levels(y)))
  }
  if (!is.numeric(y) && !is.logical(y)) stop("y is of type ", typeof(y), ", expected numbers", call. = FALSE)
  list(y = as.numeric(y))
}

# as_times are events and their times, of a Surv object or of columns (time, event) or (start, stop, event).
as_times <- function(y) {
  if (inherits(y, "Surv") && !attr(y, "type") %in% c("right", "counting")) {
    stop("y is of the type ", attr(y, "type"), ", expected right or counting", call. = FALSE)
  }
  columns <- if (is.null(dim(y))) 1 else ncol(y)
  if (!columns %in% 2:3 || !is.numeric(y)) {
    stop("y has ", columns, " columns, expected Surv(time, event) or Surv(start, stop, event)", call. = FALSE)
  }
  y <- unclass(y)
  list(y = unname(y[, columns]), time = unname(y[, columns - 1]), start = if (columns == 3) unname(y[, 1]))
}

group_numbers <- function(groups, p) {
  if (is.null(groups)) stop("groups is missing: the group-lasso needs the group of each column of x", call. = FALSE)
  if (length(groups) != p) {
    stop("groups has ", length(groups), " values, expected ", p, ", one for each column of x", call. = FALSE)
  }
  match(groups, unique(groups)) - 1
}

# is_grid says whether a text is meant as a grid, one_weight whether lambda is one: a number, or a text such as "0.1max".
is_grid <- function(text) is.character(text) && grepl("[:,]", text)
one_weight <- function(lambda) length(lambda) == 1 && (is.numeric(lambda) || (is.character(lambda) && !is_grid(lambda)))

# grid_of is a grid in the program's notation. NULL is the program's own: of the LASSO glmnet's hundred weights.
grid_of <- function(lambda) {
  if (is.null(lambda) || is.character(lambda)) return(lambda)
  lambda <- sort(lambda)
  if (!all(is.finite(lambda) & lambda > 0)) stop("lambda has values that are not positive numbers", call. = FALSE)
  grid <- exp(seq(log(lambda[[1]]), log(lambda[[length(lambda)]]), length.out = length(lambda)))
  if (any(abs(grid - lambda) > 1e-6 * grid)) return(paste(sprintf("%.17g", lambda), collapse = ","))
  sprintf("%.17g:%.17g:%d", lambda[[1]], lambda[[length(lambda)]], length(lambda))
}

inverse_link <- function(family) {
  switch(family, gaussian = identity, mgaussian = identity, binomial = stats::plogis, poisson = exp, cox = exp,
         multinomial = function(eta) {
           p <- exp(eta - apply(eta, 1, max))
           p / rowSums(p)
         })
}

number <- function(x) if (is.null(x)) NA_real_ else as.numeric(x)

# names_of are those of the coefficients; of several classes they begin with the class.
names_of <- function(columns, classes) {
  if (is.null(classes)) columns else as.vector(outer(classes, columns, paste, sep = ":"))
}

# parts are what a fit keeps of the worker's answer. Of several classes coefficients are a matrix.
parts <- function(got, columns, single, classes = NULL, asked = NULL) {
  table <- got$result$coefficients
  estimates <- vapply(table, function(r) number(r$estimate), 0)
  if (any(grepl("(intercept)", vapply(table, function(r) r$name, ""), fixed = TRUE))) columns <- c("(Intercept)", columns)
  names <- names_of(columns, classes)
  debiased <- data.frame(estimate = estimates, debiased = vapply(table, function(r) number(r$debiased), 0),
                         std.error = vapply(table, function(r) number(r$debiased_stderr), 0), row.names = names)
  coefficients <- if (is.null(classes)) {
    stats::setNames(estimates, names)
  } else {
    matrix(estimates, ncol = length(classes), byrow = TRUE, dimnames = list(columns, classes))
  }
  c(list(coefficients = coefficients, table = debiased), outcome(got, single, asked))
}

# outcome is what all fits have: the weight, the criterion with its error, and what to doubt.
outcome <- function(got, single, asked = NULL) {
  criterion <- if (single) NULL else got$summary$criterion
  chosen <- flat(if (single) got$result else got$summary$chosen)
  if (single) { # that of a sweep's default
    known <- Filter(function(name) is.finite(number(chosen[[name]])), c("lgo", "sure", "alo", "gcv", "aic", "bic"))
    if (!is.null(asked) && !asked %in% known) {
      stop(errorCondition(paste0("criterion is ", asked, ", which is not known of one weight: expected ",
                                 paste(known, collapse = ", "), ", or several weights"), class = "surepipe_error"))
    }
    first <- c(asked, setdiff(known, c("aic", "bic")))
    criterion <- if (length(first) && first[[1]] != "sure") first[[1]]
  }
  key <- if (is.null(criterion)) "sure" else criterion
  of_fit <- got$result$warnings
  # A doubt about gcv is none about another criterion that was minimized.
  if (!is.null(criterion) && criterion != "gcv") of_fit <- Filter(function(w) w$code != "gcv-leverages", of_fit)
  list(lambda = number(got$result$lambda), criterion = criterion, risk = number(chosen[[key]]),
       risk_stderr = number(chosen[[paste0(key, "_stderr")]]), df = number(got$result$df),
       df_stderr = number(got$result$divergence_stderr),
       points = if (!single) rows_of(got$points, criterion), audit = got$summary$audit,
       optimism = number(got$summary[["optimism"]]),
       warnings = unique(c(of_fit, got$summary$warnings)), trusted = got$status == 0,
       result = got$result, summary = got$summary)
}

# of_sweeps are the options that belong to a sweep, not to its problem.
of_sweeps <- c("refine", "chain", "audit")

# widest_path is the number of columns up to which the coefficients of all points are kept.
widest_path <- 5000

# path_of are the coefficients of all points, a row for each in the order of rows_of; NULL where they were not asked for.
path_of <- function(got, columns, classes = NULL) {
  if (is.null(got$path)) return(NULL)
  path <- get_array(got$path)
  names <- names_of(c("(Intercept)", columns), classes)
  colnames(path) <- if (ncol(path) == length(names)) names else c("(Intercept)", names_of(columns, classes))
  if (all(is.na(path[, 1]))) path <- path[, -1, drop = FALSE]
  path[order(weights_of(got$points)), , drop = FALSE]
}

weights_of <- function(points) vapply(points, function(p) number(p$lambda), 0)

# flat is a record with the criteria that need fits of their own, as cv, beside the others.
flat <- function(record) c(record, record$criteria[setdiff(names(record$criteria), names(record))])

# rows_of is a data frame of a sweep's points, in the order of their weights.
rows_of <- function(points, criterion) {
  points <- lapply(points, flat)
  keys <- c("lambda", intersect(c("lambda2", "gamma"), names(points[[1]])), "df", criterion,
            paste0(criterion, "_stderr"))
  frame <- as.data.frame(stats::setNames(lapply(keys, function(k) vapply(points, function(p) number(p[[k]]), 0)), keys))
  frame[order(frame$lambda), , drop = FALSE]
}

# warn signals the warnings of a result, each a condition whose class is its code: notes as messages, for their numbers
# stand.
warn <- function(warnings) {
  for (w in warnings) {
    known <- worker()$warnings[[w$code]]
    if (isTRUE(known$quiet)) next
    code <- paste0("surepipe_", gsub("-", "_", w$code))
    text <- paste0(w$text, " [", w$code, "]")
    if (identical(known$severity, "note")) {
      message(structure(class = c(code, "surepipe_note", "message", "condition"),
                        list(message = paste0(text, "\n"), call = NULL)))
    } else {
      warning(structure(class = c(code, if (!identical(known$severity, "caution")) "surepipe_doubt", "surepipe_warning",
                                  "warning", "condition"), list(message = text, call = NULL)))
    }
  }
}

# The name of a family: as it is, or of glm's families with their canonical links.
as_family <- function(family) {
  if (is.function(family)) family <- family()
  if (inherits(family, "family")) {
    link <- c(gaussian = "identity", binomial = "logit", poisson = "log")[family$family]
    if (is.na(link) || family$link != link) {
      stop("family is ", family$family, " with the link ", family$link,
           ", expected gaussian with identity, binomial with logit or poisson with log", call. = FALSE)
    }
    family <- family$family
  }
  match.arg(family, c("gaussian", "binomial", "poisson", "multinomial", "mgaussian", "cox"))
}

# What is asked of the command, of Go, of Python and of R: the same digits for the same request (testdata/doors.json).
read_npz <- function(path) {
  folder <- tempfile()
  on.exit(unlink(folder, recursive = TRUE))
  files <- utils::unzip(path, exdir = folder)
  arrays <- lapply(files, function(f) {
    from <- file(f, "rb")
    on.exit(close(from))
    readBin(from, raw(), 8)
    head <- rawToChar(readBin(from, raw(), readBin(from, integer(), size = 2, signed = FALSE, endian = "little")))
    shape <- as.numeric(strsplit(gsub("[ ,]+$", "", sub(".*\\(([^)]*)\\).*", "\\1", head)), ", *")[[1]])
    type <- if (grepl("'<i8'", head, fixed = TRUE)) "integer" else "double"
    values <- readBin(from, type, if (length(shape)) prod(shape) else 1, size = 8, endian = "little")
    if (length(shape) < 2) values else aperm(array(values, rev(shape)))
  })
  stats::setNames(arrays, sub("\\.npy$", "", basename(files)))
}

# scalars are the numbers of a result that depend neither on the clock nor on rounding errors.
scalars <- function(result) {
  result <- result[vapply(result, function(v) is.numeric(v) && length(v) == 1, NA)]
  result[!grepl("seconds|took|space_margin", names(result))]
}

test_that("R gives the digits of the command", {
  skip_without_program()
  testdata <- Sys.getenv("SUREPIPE_TESTDATA")
  skip_if(!nzchar(testdata), "the requests of all doors are beside the sources")
  doors <- jsonlite::fromJSON(file.path(testdata, "doors.json"), simplifyVector = FALSE)
  asked <- 0
  for (d in doors) {
    path <- file.path(testdata, d$data)
    o <- d$options
    flags <- unlist(Map(function(n, v) paste0("--", n, "=", if (isTRUE(v)) "true" else v), names(o), o))
    done <- processx::run(surepipe_binary(), c(d$verb, "--problem", d$problem, "--data", path, flags, "--json"),
                          error_on_status = FALSE)
    lines <- strsplit(trimws(done$stdout), "\n")[[1]]
    if (d$verb == "run") lines <- paste(lines, collapse = "\n")
    want <- jsonlite::fromJSON(lines[[length(lines)]], simplifyVector = FALSE)
    if (d$verb == "sweep") want <- want$chosen
    if (any(grepl(",", o$response, fixed = TRUE))) {
      formula <- stats::as.formula(paste0("cbind(", o$response, ") ~ ."))
      fits <- quiet(surepipe(formula, utils::read.csv(path), penalty = d$problem, lambda = o$lambda))
      for (k in seq_along(fits)) {
        got <- scalars(fits[[k]]$result)
        expect_equal(got, scalars(want[[k]])[names(got)], label = d$name, tolerance = 1e-12)
      }
      asked <- asked + 1
      next
    }
    table <- grepl("csv$", path)
    a <- if (!table) read_npz(path)
    named <- c("lambda", "sigma2", "criterion", "rule", "intercept", "standardize", "effects")
    rest <- o[setdiff(names(o), named)]
    as_given <- d$problem %in% c("robust-pca", "svt", "tv2d") || !is.null(o$trace) # with probes, whose signs belong to the order
    fit <- if (table) {
      flags <- o[setdiff(names(o), c("criterion", "rule"))]
      quiet(surepipe_run(d$problem, stats::setNames(list(), character()), c(list(data = path), flags), o$criterion, o$rule))
    } else if (as_given) {
      given <- intersect(names(a), c("y", "indices", "shape"))
      weights <- a[setdiff(intersect(names(a), c("lambda", if (d$problem == "robust-pca") "gamma", "sigma2")), names(o))]
      quiet(surepipe_run(d$problem, a[given], c(weights, o)))
    } else if (d$problem == "matrix-completion") {
      m <- matrix(NA_real_, a$shape[[2]], a$shape[[1]])
      m[a$indices + 1] <- a$y
      effects <- if (!is.null(o$effects)) strsplit(o$effects, ",")[[1]]
      quiet(complete(t(m), effects, lambda = a$lambda, options = c(rest, sigma2 = a$sigma2)))
    } else {
      quiet(surepipe(a$X, a$y, penalty = d$problem, lambda = o$lambda, criterion = o$criterion, rule = o$rule,
                     sigma2 = if (is.null(o$sigma2)) a$sigma2 else o$sigma2, intercept = isTRUE(o$intercept),
                     standardize = isTRUE(o$standardize), options = rest))
    }
    got <- if (d$verb == "run") fit$result else fit$summary$chosen
    same <- expect_identical
    if (d$problem == "matrix-completion" && !as_given) { # entries in another order, so that random signs belong to others
      same <- expect_equal
      got <- got[!grepl("_stderr$|jacobian", names(got))]
    }
    same(scalars(got), scalars(want)[names(scalars(got))], label = d$name)
    asked <- asked + 1
  }
  expect_equal(asked, length(doors))
})

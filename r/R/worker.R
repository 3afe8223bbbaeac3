# The worker: one process of the program, which answers JSON-RPC requests over pipes. It starts with the first
# request and ends with R. A child of fork starts its own.
state <- new.env(parent = emptyenv())

worker <- function() {
  if (is.null(state$process) || !identical(state$pid, Sys.getpid()) || !state$process$is_alive()) {
    shared <- if (file.access("/dev/shm", 2) == 0) "/dev/shm" else tempdir()
    reg.finalizer(state, function(e) surepipe_stop(), onexit = TRUE)
    state$process <- processx::process$new(surepipe_binary(), c("worker", "--directory", shared),
                                           stdin = "|", stdout = "|", stderr = NULL, cleanup = TRUE)
    state$pid <- Sys.getpid()
    state$buffer <- raw()
    state$last <- 0
    info <- call_worker("info")
    state$folder <- info$folder # which ends with the worker
    state$warnings <- info$warnings
  }
  state
}

surepipe_stop <- function() {
  if (!is.null(state$process) && identical(state$pid, Sys.getpid())) {
    close(state$process$get_input_connection())
    state$process$wait(timeout = 3000)
    state$process$kill()
    unlink(state$folder, recursive = TRUE) # where R has killed it before its end
  }
  state$process <- NULL
  invisible()
}

# call sends a request and returns its result. An interrupt cancels the request.
call_worker <- function(method, ...) {
  w <- worker()
  w$last <- id <- w$last + 1
  send(w, list(jsonrpc = "2.0", id = id, method = method, params = named(list(...))))
  done <- FALSE
  on.exit(if (!done && w$process$is_alive()) {
    w$last <- w$last + 1
    send(w, list(jsonrpc = "2.0", id = w$last, method = "cancel", params = list(id = id)))
  })
  repeat {
    m <- receive(w)
    if (identical(m$method, "warning")) next # those of a result are in the result
    if (is.null(m$id) && !is.null(m$error)) refuse(m$error)
    if (!identical(as.numeric(m$id), as.numeric(id))) next
    done <- TRUE
    if (!is.null(m$error)) refuse(m$error)
    return(m$result)
  }
}

refuse <- function(e) {
  stop(structure(class = c("surepipe_error", "error", "condition"),
                 list(message = e$message, call = NULL, code = e$code, data = e$data)))
}

named <- function(x) {
  x <- x[!vapply(x, is.null, NA)]
  if (length(x)) x else structure(list(), names = character())
}

# exact writes numbers with all their digits; jsonlite writes 15.
exact <- function(x) {
  if (is.list(x)) return(lapply(x, exact))
  if (is.double(x) && length(x) == 1 && is.finite(x) && !inherits(x, "AsIs")) {
    return(structure(sprintf("%.17g", x), class = "json"))
  }
  x
}

send <- function(w, message) {
  text <- jsonlite::toJSON(exact(message), auto_unbox = TRUE, digits = NA, null = "null", json_verbatim = TRUE)
  bytes <- charToRaw(enc2utf8(text))
  left <- c(charToRaw(sprintf("Content-Length: %d\r\n\r\n", length(bytes))), bytes)
  while (length(left)) {
    before <- length(left)
    left <- w$process$write_input(left)
    if (length(left) == before) Sys.sleep(0.001)
  }
}

receive <- function(w) {
  repeat {
    at <- grepRaw("\r\n\r\n", w$buffer, fixed = TRUE)
    if (length(at)) {
      head <- rawToChar(w$buffer[seq_len(at - 1)])
      size <- as.integer(sub(".*Content-Length: *([0-9]+).*", "\\1", head))
      end <- at + 3 + size
      if (length(w$buffer) >= end) {
        text <- rawToChar(w$buffer[seq_len(size) + at + 3])
        w$buffer <- w$buffer[-seq_len(end)]
        Encoding(text) <- "UTF-8"
        return(jsonlite::fromJSON(text, simplifyVector = FALSE))
      }
    }
    if (!w$process$is_alive()) {
      state$process <- NULL
      stop("the worker of surepipe has ended", call. = FALSE)
    }
    w$process$poll_io(200)
    w$buffer <- c(w$buffer, charToRaw(w$process$read_output(1e6)))
  }
}

# put makes an array of the protocol: row by row in base64, or a .npy file, column by column as R has it, from a
# megabyte on.
put <- function(x) {
  shape <- if (is.null(dim(x))) length(x) else dim(x)
  if (length(x) < 131072) {
    if (length(shape) > 1) x <- aperm(x)
    bytes <- writeBin(as.double(x), raw(), endian = "little")
    return(list(shape = I(shape), base64 = gsub("\n", "", jsonlite::base64_enc(bytes), fixed = TRUE)))
  }
  path <- tempfile(tmpdir = worker()$folder, fileext = ".npy")
  head <- sprintf("{'descr': '<f8', 'fortran_order': True, 'shape': (%s,), }", paste(shape, collapse = ", "))
  pad <- (64 - (10 + nchar(head) + 1) %% 64) %% 64
  head <- paste0(head, strrep(" ", pad), "\n")
  to <- file(path, "wb")
  on.exit(close(to))
  writeBin(as.raw(c(0x93, utf8ToInt("NUMPY"), 1, 0)), to)
  writeBin(nchar(head), to, size = 2, endian = "little")
  writeBin(charToRaw(head), to)
  writeBin(as.double(x), to, endian = "little")
  list(npy = path)
}

# get_array is the array of R of one of the protocol.
get_array <- function(a) {
  if (is.null(a)) return(NULL)
  fortran <- FALSE
  if (!is.null(a$npy)) {
    from <- file(a$npy, "rb")
    on.exit(close(from))
    readBin(from, raw(), 8)
    head <- rawToChar(readBin(from, raw(), readBin(from, integer(), size = 2, signed = FALSE, endian = "little")))
    shape <- as.numeric(strsplit(gsub("[ ,]+$", "", sub(".*\\(([^)]*)\\).*", "\\1", head)), ", *")[[1]])
    fortran <- grepl("'fortran_order': True", head, fixed = TRUE)
    values <- readBin(from, double(), prod(shape), endian = "little")
  } else {
    shape <- as.numeric(unlist(a$shape))
    if (!is.null(a$base64)) {
      values <- readBin(jsonlite::base64_dec(a$base64), double(), prod(shape), endian = "little")
    } else {
      values <- as.numeric(unlist(a$values))
    }
    if (!length(shape)) shape <- length(values)
  }
  if (length(shape) < 2) return(values)
  if (fortran) array(values, shape) else aperm(array(values, rev(shape)))
}

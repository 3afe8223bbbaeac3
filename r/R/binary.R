# Where the program is: option surepipe.binary, then the variable SUREPIPE_BINARY, then the user's cache, where
# surepipe_build() puts it, then the search path.
surepipe_binary <- function() {
  named <- c(getOption("surepipe.binary", ""), Sys.getenv("SUREPIPE_BINARY"))
  for (path in named[nzchar(named)]) {
    if (!file.exists(path)) stop("no program surepipe at ", path, call. = FALSE)
    return(normalizePath(path))
  }
  found <- c(built_binary()[file.exists(built_binary())], unname(Sys.which("surepipe")))
  found <- found[nzchar(found)]
  if (!length(found)) {
    stop("the program surepipe was not found. Build it with surepipe_build(\"path of its sources\"), which needs ",
         "Go, or name one by options(surepipe.binary = \"/path/surepipe\").", call. = FALSE)
  }
  found[[1]]
}

built_binary <- function() {
  file.path(tools::R_user_dir("surepipe", "cache"),
            if (.Platform$OS.type == "windows") "surepipe.exe" else "surepipe")
}

surepipe_build <- function(source, go = "go") {
  if (!file.exists(file.path(source, "cmd", "surepipe"))) {
    stop("source is ", source, ": expected the folder of surepipe's sources, in which cmd/surepipe is", call. = FALSE)
  }
  if (!nzchar(Sys.which(go))) stop("Go was not found: install it, or name its command by go", call. = FALSE)
  dir.create(dirname(built_binary()), recursive = TRUE, showWarnings = FALSE)
  done <- processx::run(Sys.which(go), c("build", "-o", built_binary(), "./cmd/surepipe"), wd = source,
                        error_on_status = FALSE, env = c("current", CGO_ENABLED = "0"))
  if (done$status != 0) stop("go build failed:\n", done$stderr, call. = FALSE)
  surepipe_stop()
  invisible(built_binary())
}

skip_without_program <- function() {
  found <- tryCatch(nzchar(surepipe_binary()), error = function(e) FALSE)
  skip_if(!found, "the program surepipe was not found")
}
quiet <- function(x) suppressMessages(suppressWarnings(x, classes = "surepipe_warning"), classes = "surepipe_note")

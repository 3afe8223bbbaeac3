# Rscript tables.R export FOLDER          writes R's tables as .csv files
# Rscript tables.R fit FOLDER NAME Y FAMILY SPLITS
#                                         fits cv.glmnet to train-K.csv, K = 1, ..., SPLITS, and writes
#                                         its predictions of test-K.csv to glmnet-K.csv; prints the
#                                         processor seconds
args <- commandArgs(TRUE)
folder <- args[2]
table <- function(name) file.path(folder, name)
if (args[1] == "export") {
  save <- function(d, name, ...) write.csv(d, table(paste0(name, ".csv")), ...)
  save(MASS::Boston, "boston")
  save(MASS::UScrime, "uscrime")
  save(MASS::quine, "quine")
  save(MASS::birthwt[names(MASS::birthwt) != "low"], "birthwt")
  save(airquality, "airquality")
  save(volcano, "volcano")
} else {
  suppressMessages(library(glmnet))
  response <- args[4]; family <- args[5]
  seconds <- 0
  for (k in seq_len(as.integer(args[6]))) {
    train <- read.csv(table(sprintf("%s-train-%d.csv", args[3], k)), stringsAsFactors = TRUE)
    test <- read.csv(table(sprintf("%s-test-%d.csv", args[3], k)), stringsAsFactors = TRUE)
    for (name in names(train)) if (is.factor(train[[name]])) {
      all <- union(levels(train[[name]]), levels(test[[name]]))
      train[[name]] <- factor(train[[name]], all); test[[name]] <- factor(test[[name]], all)
    }
    train <- na.omit(train)
    formula <- as.formula(paste(response, "~ ."))
    x <- model.matrix(formula, train)[, -1]
    test[[response]] <- 0
    new <- model.matrix(formula, test)[, -1]
    set.seed(k)
    seconds <- seconds + sum(system.time(fit <- cv.glmnet(x, train[[response]], family = family))[1:2])
    p <- predict(fit, new, s = "lambda.min", type = "response")
    write.csv(data.frame(prediction = as.vector(p)), table(sprintf("%s-glmnet-%d.csv", args[3], k)), row.names = FALSE)
  }
  cat(seconds, "\n")
}

"""The real data of heldout.py: tables, matrices, series and grouped tables of R, MASS, nlme, lme4, scikit-learn,
statsmodels and scikit-image as Debian installs them. Another data set is one more line."""
import functools
import io
import os
import re
import subprocess
import sys

PACKAGES = ("r-base-core r-cran-mass r-cran-nlme r-cran-lme4 python3-sklearn python3-statsmodels python3-skimage "
            "python3-pandas")
missing = [p for p in PACKAGES.split() if subprocess.run(["dpkg-query", "-W", p], capture_output=True).returncode]
if missing:
    sys.exit("missing packages: apt-get install -y --no-install-recommends " + " ".join(missing))

import numpy as np
import pandas as pd
import skimage.io
import sklearn.datasets
import statsmodels.datasets as sm

# Expressions of R with a response and columns to drop.
TABLES = """
airquality Ozone
attenu accel event,station
cars dist
chickwts weight
faithful eruptions
iris Sepal.Length
LifeCycleSavings sr
OrchardSprays decrease
quakes mag
rock perm
swiss Fertility
ToothGrowth len
USArrests Murder
USJudgeRatings RTEN
morley Speed
warpbreaks breaks
MASS::anorexia Postwt
MASS::birthwt bwt low
MASS::Boston medv
MASS::cabbages VitC
MASS::Cars93 Price Min.Price,Max.Price,Model,Make,Manufacturer
MASS::cats Hwt
MASS::cpus perf name,estperf
MASS::crabs CW index
MASS::fgl RI
MASS::GAGurine GAG
MASS::gehan time pair
MASS::geyser duration
MASS::genotype Wt
MASS::mammals brain
MASS::mcycle accel
MASS::Melanoma time
MASS::michelson Speed
MASS::muscle Length Strip
MASS::painters Colour
MASS::quine Days
MASS::Rubber loss
MASS::survey Pulse
MASS::topo z
MASS::UScereal calories
MASS::UScrime y
MASS::VA stime
MASS::whiteside Gas
MASS::wtloss Weight
MASS::hills time
MASS::nlschools lang class
MASS::Insurance Claims
mtcars mpg
trees Volume
"""
CLASSES = """
infert case logistic stratum,pooled.stratum
MASS::biopsy class logistic ID
MASS::birthwt low logistic bwt
MASS::Pima.tr type logistic
MASS::Pima.te type logistic
MASS::synth.tr yc logistic
MASS::bacteria y logistic ID
MASS::survey Sex logistic
esoph ncases poisson
InsectSprays count poisson
warpbreaks breaks poisson
MASS::quine Days poisson
MASS::snails Deaths poisson
MASS::Traffic y poisson
MASS::housing Freq poisson
MASS::epil y poisson subject
lme4::grouseticks TICKS poisson INDEX,BROOD,LOCATION
"""
SERIES = """
AirPassengers airmiles austres BJsales BJsales.lead discoveries JohnsonJohnson LakeHuron lh lynx nhtemp Nile nottem
UKDriverDeaths UKgas USAccDeaths WWWusage co2 sunspot.year ldeaths mdeaths MASS::accdeaths MASS::deaths
EuStockMarkets[1:400,1] EuStockMarkets[1:400,2] diff(log(EuStockMarkets[1:400,1])) treering[1:500] sunspots[1:600]
Seatbelts[,"front"] MASS::SP500[1:500] MASS::beav1$temp MASS::beav2$temp freeny$y
"""
GROUPED = """
transform(ChickWeight,Chick=as.integer(as.character(Chick))) weight Chick
lme4::sleepstudy Reaction Subject
transform(nlme::Orthodont,Subject=as.integer(factor(Subject))) distance Subject
transform(nlme::Oxboys,Subject=as.integer(as.character(Subject))) height Subject Occasion
transform(nlme::BodyWeight,Rat=as.integer(as.character(Rat))) weight Rat
transform(nlme::Milk,Cow=as.integer(factor(Cow))) protein Cow
transform(nlme::Ovary,Mare=as.integer(as.character(Mare))) follicles Mare
transform(nlme::Pixel,Dog=as.integer(as.character(Dog))) pixel Dog
transform(nlme::IGF,Lot=as.integer(as.character(Lot))) conc Lot
transform(nlme::Spruce,Tree=as.integer(factor(Tree))) logSize Tree Plot
transform(nlme::Soybean,Plot=as.integer(factor(Plot))) weight Plot
transform(nlme::RatPupWeight,Litter=as.integer(as.character(Litter))) weight Litter
transform(nlme::Dialyzer,Subject=as.integer(factor(Subject))) rate Subject
transform(nlme::Machines,Worker=as.integer(factor(Worker))) score Worker
transform(nlme::Relaxin,Run=as.integer(as.character(Run))) conc Run
transform(nlme::PBG,Rabbit=as.integer(factor(Rabbit))) deltaBP Rabbit Run
transform(Orange,Tree=as.integer(factor(Tree))) circumference Tree
transform(Loblolly,Seed=as.integer(as.character(Seed))) height Seed
transform(CO2,Plant=as.integer(factor(Plant))) uptake Plant
transform(Theoph,Subject=as.integer(as.character(Subject))) conc Subject
transform(Indometh,Subject=as.integer(as.character(Subject))) conc Subject
transform(DNase,Run=as.integer(as.character(Run))) density Run
transform(MASS::Sitka,treat=as.character(treat)) size tree
MASS::epil y subject period,V4
transform(MASS::nlschools,class=as.integer(factor(class))) lang class
transform(lme4::Pastes,batch=as.integer(factor(batch))) strength batch sample
transform(lme4::Penicillin,plate=as.integer(factor(plate))) diameter plate
lme4::cake angle replicate recipe:replicate
"""


MATRICES = ["MASS::crabs[, 4:8]", "EuStockMarkets[seq(1, 1860, 4), ]", "USArrests", "swiss", "state.x77", "USJudgeRatings",
            "MASS::fgl[, 1:9]", "MASS::UScrime", "MASS::Boston", "quakes[seq(1, 1000, 4), ]", "attenu[, 4:5]", "longley",
            "mtcars", "na.omit(airquality[, 1:4])", "MASS::painters[, 1:4]", "LifeCycleSavings", "rock",
            "na.omit(MASS::biopsy[1:300, 2:10])"]


@functools.cache
def all_of_r():
    """The tables of R by their expressions, from one process."""
    text = "\n".join(line.split()[0] for line in (TABLES + CLASSES + GROUPED).strip().splitlines() if line)
    wanted = sorted({*text.split("\n"), *SERIES.split(), *MATRICES, "volcano"})
    code = "for (e in readLines('stdin')) { cat('@@', e, '\\n', sep = ''); " \
           "write.csv(as.data.frame(eval(parse(text = e))), row.names = FALSE) }"
    done = subprocess.run(["Rscript", "-e", code], input="\n".join(wanted), capture_output=True, text=True, check=True)
    parts = (part.split("\n", 1) for part in done.stdout.split("@@")[1:])
    return {expression: pd.read_csv(io.StringIO(text)) for expression, text in parts}


def r(expression):
    return all_of_r()[expression]


def scaled(x):
    x = np.asarray(x, float)
    return (x - x.mean(0)) / x.std(0)


def frame(f, response, family="squared", drop=()):
    f = f.drop(columns=[c for c in drop if c in f]).dropna().reset_index(drop=True)
    if family == "logistic" and not pd.api.types.is_numeric_dtype(f[response]):
        f[response] = (f[response] == sorted(f[response].unique())[-1]).astype(int)
    return {"frame": f, "response": response, "family": family}


def lines(text):
    for line in text.strip().splitlines():
        yield line.split()


def named(expression):
    """The name of the data in an expression of R."""
    return re.sub(r"^(transform|diff|log|na.omit|\(|\w+::)*", "", expression).split(",")[0].split("$")[0].split("[")[0].split(")")[0]


def tables():
    for name, response, *drop in lines(TABLES):
        yield named(name), frame(r(name), response, drop=drop[0].split(",") if drop else ())
    yield "diabetes", frame(sklearn.datasets.load_diabetes(as_frame=True, scaled=False).frame, "target")
    yield "wine", frame(sklearn.datasets.load_wine(as_frame=True).frame.drop(columns="target"), "alcohol")
    yield "breast cancer", frame(sklearn.datasets.load_breast_cancer(as_frame=True).frame, "mean radius", drop=[
        "target", "mean perimeter", "mean area", "worst radius", "worst perimeter", "worst area"])
    for name, response, drop in [("ccard", "AVGEXP", ()), ("engel", "foodexp", ()), ("fair", "affairs", ()),
                                 ("statecrime", "murder", ()), ("heart", "survival", ("censors",)), ("strikes", "duration", ()),
                                 ("cancer", "cancer", ()), ("anes96", "selfLR", ()),
                                 ("star98", "LOWINC", ("NABOVE", "NBELOW"))]:
        yield name, frame(getattr(sm, name).load_pandas().data.reset_index(drop=True), response, drop=drop)


def classes():
    for name, response, family, *drop in lines(CLASSES):
        yield named(name), frame(r(name), response, family, drop[0].split(",") if drop else ())
    yield "breast cancer", frame(sklearn.datasets.load_breast_cancer(as_frame=True).frame, "target", "logistic")
    yield "anes96", frame(sm.anes96.load_pandas().data, "vote", "logistic")
    randhie = sm.randhie.load_pandas().data
    yield "randhie", frame(randhie.iloc[::20], "mdvis", "poisson")


def matrices():
    yield "iris", {"x": scaled(sklearn.datasets.load_iris().data)}
    yield "wine", {"x": scaled(sklearn.datasets.load_wine().data)}
    yield "breast cancer", {"x": scaled(sklearn.datasets.load_breast_cancer().data[:300])}
    yield "diabetes", {"x": scaled(sklearn.datasets.load_diabetes().data)}
    for e in MATRICES:
        yield named(e), {"x": scaled(r(e))}
    yield "volcano", {"x": r("volcano").to_numpy(float)}
    digits = sklearn.datasets.load_digits().data
    yield "digits", {"x": digits[:400], "seen": 0.5, "grid": "0.02max:max:8"}
    faces = np.load(os.path.join(os.path.dirname(skimage.__file__), "data", "lfw_subset.npy")).reshape(200, -1)
    yield "faces", {"x": faces[:100, ::5].astype(float), "grid": "0.02max:max:8"}
    for name in ["camera", "coins", "moon"]:
        image = skimage.io.imread(os.path.join(os.path.dirname(skimage.__file__), "data", name + ".png")).astype(float)
        yield name, {"x": image[::8, ::8] / 255, "grid": "0.02max:max:8"}


def series():
    for e in SERIES.split():
        y = r(e).to_numpy(float)[:, 0]
        yield e.split("::")[-1].strip(")"), {"y": y[np.isfinite(y)]}
    macro = sm.macrodata.load_pandas().data
    for c in ["infl", "unemp", "realgdp"]:
        yield "macrodata " + c, {"y": macro[c].to_numpy(float)}
    yield "elnino", {"y": sm.elnino.load_pandas().data.iloc[:, 1:].to_numpy(float).ravel()[:500]}


def grouped():
    for name, response, groups, *drop in lines(GROUPED):
        yield named(name), {**frame(r(name), response, drop=drop[0].split(",") if drop else ()), "groups": groups}
    yield "grunfeld", {**frame(sm.grunfeld.load_pandas().data.assign(
        firm=lambda f: f.firm.astype("category").cat.codes), "invest"), "groups": "firm"}


def of(kind, folder):
    """The data of a kind: pairs of a name and what heldout.py needs."""
    return {"tables": tables, "counts and classes": classes, "matrices": matrices, "series": series, "runs of series": series,
            "grouped": grouped, "grouped with --groups": grouped}[kind]()

"""Writes the tables of this folder from those that scikit-learn and statsmodels ship.

Run in this directory: python3 make.py (numpy, pandas, scikit-learn and statsmodels; no network)."""

import numpy as np
from sklearn.datasets import load_diabetes, load_iris
from statsmodels.datasets import anes96, elnino, grunfeld, macrodata, nile, randhie

names = ["age", "sex", "bmi", "pressure", "cholesterol", "ldl", "hdl", "ratio", "triglycerides", "glucose"]
diabetes = load_diabetes(scaled=False, as_frame=True).frame
diabetes.columns = names + ["progression"]
diabetes["sex"] = diabetes["sex"].map({1: "a", 2: "b"})
diabetes = diabetes[["progression"] + names]
diabetes[:400].to_csv("diabetes.csv", index=False, float_format="%.6g")
diabetes[400:].to_csv("diabetes-new.csv", index=False, float_format="%.6g")

votes = anes96.load_pandas().data
votes["vote"] = votes["vote"].map({0: "Clinton", 1: "Dole"})
votes = votes[["vote", "popul", "TVnews", "selfLR", "ClinLR", "DoleLR", "PID", "age", "educ", "income"]]
votes.to_csv("votes.csv", index=False, float_format="%.6g")

# Fisher (1936), The use of multiple measurements in taxonomic problems.
iris = load_iris(as_frame=True)
flowers = iris.frame.set_axis(["sepal_length", "sepal_width", "petal_length", "petal_width", "species"], axis=1)
flowers["species"] = [iris.target_names[k] for k in flowers["species"]]
flowers.to_csv("iris.csv", index=False, float_format="%.6g")

visits = randhie.load_pandas().data[::40]
visits = visits.rename(columns={"mdvis": "visits"})
visits.to_csv("visits.csv", index=False, float_format="%.6g")

grunfeld.load_pandas().data.to_csv("firms.csv", index=False, float_format="%.6g")
flow = nile.load_pandas().data
flow.astype(int).to_csv("nile.csv", index=False)

gdp = macrodata.load_pandas().data
gdp["quarter"] = gdp["year"].astype(int).astype(str) + "Q" + gdp["quarter"].astype(int).astype(str)
gdp[["quarter", "realgdp"]].to_csv("gdp.csv", index=False, float_format="%.7g")

sea = elnino.load_pandas().data.set_index("YEAR")
sea.index = sea.index.astype(int)
sea.index.name = None
gone = np.random.default_rng(1).random(sea.shape) < 0.3
sea.mask(gone).to_csv("sea.csv", float_format="%.6g")

# Moths that a dose of poison killed, of 20 each: Collett, Modelling Binary Data (1991), from Holloway (1989).
dead = [1, 4, 9, 13, 18, 20, 0, 2, 6, 10, 12, 16]
with open("budworm.csv", "w") as f:
    print("dead,n,logdose,sex", file=f)
    for i, k in enumerate(dead):
        print(f"{k},20,{i % 6},{'male' if i < 6 else 'female'}", file=f)

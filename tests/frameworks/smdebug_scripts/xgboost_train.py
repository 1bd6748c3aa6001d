"""All collections of a boosted model."""

import sys

import numpy as np
import smdebug.xgboost as smd
import xgboost

features = np.random.default_rng(0).random((50, 3))
labels = (features[:, 0] > 0.5).astype(int)
data = xgboost.DMatrix(features, label=labels)
parameters = {"objective": "binary:logistic", "max_depth": 2}
hook = smd.Hook(
    out_dir=sys.argv[1],
    save_config=smd.SaveConfig(save_interval=2),
    include_collections=[
        "metrics",
        "feature_importance",
        "predictions",
        "labels",
        "average_shap",
        "full_shap",
        "hyperparameters",
        "trees",
    ],
    train_data=data,
    validation_data=data,
    hyperparameters=parameters,
)
xgboost.train(parameters, data, 6, evals=[(data, "train")], callbacks=[hook], verbose_eval=False)

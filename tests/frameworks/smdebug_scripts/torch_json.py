"""The configuration of a SageMaker job, as its container has it."""

import json
import os
import sys
import tempfile
from pathlib import Path

import smdebug.pytorch as smd
import torch

file = Path(tempfile.mkdtemp()) / "debughookconfig.json"
with file.open("w") as opened:
    configuration = {
        "S3OutputPath": "s3://bucket/jobs",
        "LocalPath": sys.argv[1],
        "HookParameters": {"save_interval": "3", "train.save_steps": "1"},
        "CollectionConfigurations": [
            {"CollectionName": "losses", "CollectionParameters": {"save_interval": "2"}},
            {"CollectionName": "biases"},
            {
                "CollectionName": "relu_outputs",
                "CollectionParameters": {"include_regex": "^1_output", "reductions": "mean,std"},
            },
        ],
    }
    json.dump(configuration, opened)
os.environ["SMDEBUG_CONFIG_FILE_PATH"] = str(file)
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
optimizer, criterion = torch.optim.SGD(net.parameters(), lr=0.1), torch.nn.MSELoss()
hook = smd.get_hook(create_if_not_exists=True)
hook.set_mode(smd.modes.TRAIN)
hook.register_module(net)
hook.register_loss(criterion)
for _ in range(8):
    optimizer.zero_grad()
    criterion(net(torch.randn(5, 4)), torch.randn(5, 1)).backward()
    optimizer.step()
hook.close()

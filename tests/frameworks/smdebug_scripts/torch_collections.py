"""Collections with patterns, parts of the model, reductions and steps of their own."""

import sys

import smdebug.pytorch as smd
import torch
from smdebug import CollectionKeys
from smdebug.core.modes import ModeKeys

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
criterion = torch.nn.MSELoss()
hook = smd.Hook(
    out_dir=sys.argv[1],
    save_config={
        ModeKeys.TRAIN: smd.SaveConfigMode(save_interval=4, save_steps=[1]),
        ModeKeys.EVAL: smd.SaveConfigMode(save_interval=2),
    },
    include_collections=["weights", "gradients", "relu", "second", "mine"],
)
gradients = hook.get_collection(CollectionKeys.GRADIENTS)
gradients.reduction_config = smd.ReductionConfig(
    reductions=["mean", "max"], abs_reductions=["min"], norms=["l2"]
)
gradients.save_config = smd.SaveConfig(save_interval=3)
hook.get_collection("relu").add_module_tensors(net[1], inputs=True, outputs=True)
hook.get_collection("second").include("^2_output")
hook.add_collection(smd.Collection("mine", include_regex=["^mine_"]))
hook.register_module(net)
hook.register_loss(criterion)
for step in range(10):
    hook.set_mode(smd.modes.TRAIN)
    optimizer.zero_grad()
    inputs, targets = torch.randn(5, 4), torch.randn(5, 1)
    loss = criterion(net(inputs), targets)
    loss.backward()
    optimizer.step()
    hook.save_scalar("lr", 0.1 / (1 + step))
smd.get_hook().close()

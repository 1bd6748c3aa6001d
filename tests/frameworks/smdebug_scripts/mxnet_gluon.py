"""Everything of a small Gluon network, in training and in evaluation."""

import sys

import smdebug.mxnet as smd
from mxnet import autograd, gluon, init, nd, random

random.seed(0)
net = gluon.nn.Sequential(prefix="net_")
with net.name_scope():
    net.add(gluon.nn.Dense(3, activation="relu"), gluon.nn.Dense(2))
net.initialize(init.Constant(0.1))
loss = gluon.loss.SoftmaxCrossEntropyLoss()
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
hook = smd.Hook(out_dir=sys.argv[1], save_config=smd.SaveConfig(save_interval=2), save_all=True)
hook.register_block(net)
hook.register_block(loss)
labels = nd.array([0, 1, 0, 1, 0])
hook.set_mode(smd.modes.TRAIN)
for step in range(6):
    inputs = nd.arange(20).reshape((5, 4)) / (20 + step)
    with autograd.record():
        found = loss(net(inputs), labels)
    found.backward()
    trainer.step(5)
    hook.save_scalar("step", step)
hook.set_mode(smd.modes.EVAL)
for _ in range(3):
    loss(net(nd.ones((5, 4))), labels)
hook.close()

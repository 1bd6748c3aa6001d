"""Everything of a small model, in training and in evaluation, with numbers of the script's own."""

import sys

import smdebug.pytorch as smd
import torch

torch.manual_seed(0)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(4, 3)
        self.relu = torch.nn.ReLU()
        self.fc2 = torch.nn.Linear(3, 2)

    def forward(self, x):
        return self.fc2(self.relu(self.fc1(x)))


net, criterion = Net(), torch.nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
hook = smd.Hook(out_dir=sys.argv[1], save_config=smd.SaveConfig(save_interval=2), save_all=True)
hook.register_module(net)
hook.register_loss(criterion)
hook.save_scalar("parameters", 23)
for epoch in range(2):
    hook.set_mode(smd.modes.TRAIN)
    net.train()
    for batch in range(5):
        optimizer.zero_grad()
        loss = criterion(net(torch.randn(5, 4)), torch.randint(0, 2, (5,)))
        loss.backward()
        optimizer.step()
        hook.save_scalar("batch", batch)
    hook.set_mode(smd.modes.EVAL)
    net.eval()
    for _ in range(3):
        with torch.no_grad():
            criterion(net(torch.randn(5, 4)), torch.randint(0, 2, (5,)))
    hook.save_scalar("epoch", epoch)
hook.close()

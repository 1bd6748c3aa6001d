"""An adversarial autoencoder of signatures of machines' sounds, by Lightning's own optimization.

The encoder shall rebuild a spectrum from four numbers, and a discriminator makes those look as if
drawn from a normal distribution. The skill is the share of the variance that is rebuilt, less how
far the codes are from that distribution (the mean distance of their quantiles).
"""

from __future__ import annotations

import logging
import math
import warnings
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, explained
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.detection.case import cases

BANDS, CODE = 32, 4


def spectra(count: int, seed: int, kind: str = "") -> Tensor:
    """(count, BANDS): four hidden causes, each bent, and noise."""
    draw = torch.Generator().manual_seed(seed)
    fixed = torch.Generator().manual_seed(41)
    causes = torch.rand(count, CODE, generator=draw) * 2 - 1
    if kind == "in groups":
        causes = 0.4 * causes + torch.randint(-1, 2, (count, CODE), generator=draw)
    mix, bend = torch.randn(2, CODE, BANDS, generator=fixed)
    x = causes @ mix + 0.5 * torch.sin(2 * causes @ bend)
    return x + 0.1 * torch.randn(count, BANDS, generator=draw)


class AdversarialAutoencoder(nn.Module):
    def __init__(self, norm: bool, spectral: bool) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(BANDS, 64), nn.BatchNorm1d(64) if norm else nn.Identity(), nn.LeakyReLU(0.2),
            nn.Linear(64, CODE),
        )  # fmt: skip
        self.decoder = nn.Sequential(nn.Linear(CODE, 64), nn.ReLU(), nn.Linear(64, BANDS))
        wrap: Any = nn.utils.parametrizations.spectral_norm if spectral else lambda layer: layer
        self.critic = nn.Sequential(
            wrap(nn.Linear(CODE, 48)), nn.LeakyReLU(0.2), wrap(nn.Linear(48, 48)),
            nn.LeakyReLU(0.2), wrap(nn.Linear(48, 1)),
        )  # fmt: skip


def module(settings: dict[str, Any]) -> Any:
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False
            self.net = AdversarialAutoencoder(settings["norm"], settings["spectral"])

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            code = self.net.encoder(x)
            return code, self.net.decoder(code)

        def training_step(self, batch: Any, number: int) -> None:
            (x,) = batch
            rebuild, judge = self.optimizers()
            loss, weight = settings["loss"], settings["weight"]
            if settings["later"] and self.current_epoch < 2:
                weight = 0.0
            real, fake = self.net.critic(torch.randn(len(x), CODE)), self.net.encoder(x).detach()
            found = self.net.critic(fake)
            if settings["fault"] == "sigmoid twice":
                real, found = real.sigmoid(), found.sigmoid()
            if loss == "least squares":
                judged = ((real - 1) ** 2).mean() + (found**2).mean()
            elif loss == "hinge":
                judged = F.relu(1 - real).mean() + F.relu(1 + found).mean()
            else:
                binary = F.binary_cross_entropy_with_logits
                high = torch.full_like(real, 0.9 if settings["smoothed"] else 1.0)
                judged = binary(real, high) + binary(found, torch.zeros_like(found))
            if number % settings["every"] == 0:
                judge.zero_grad()
                self.manual_backward(judged)
                judge.step()

            self.toggle_optimizer(rebuild)
            code, again = self(x)
            if settings["fault"] == "rebuilt from a copy of the code":
                again = self.net.decoder(code.detach())
            error = F.mse_loss(again, x)
            score = self.net.critic(code)
            if loss == "least squares":
                fooled = ((score - 1) ** 2).mean()
            elif loss == "hinge":
                fooled = -score.mean()
            else:
                fooled = F.softplus(-score).mean()
            total = error + weight * fooled
            if settings["fault"] != "gradients kept":
                rebuild.zero_grad()
            self.manual_backward(total)
            if settings["clip"]:
                self.clip_gradients(rebuild, settings["clip"], "norm")
            rebuild.step()
            self.untoggle_optimizer(rebuild)
            self.log_dict({"rebuilt": error, "fooled": fooled, "judged": judged})
            if settings["schedule"]:
                for scheduler in self.lr_schedulers():
                    scheduler.step()

        def validation_step(self, batch: Any, number: int) -> None:
            self.log("val_loss", F.mse_loss(self(batch[0])[1], batch[0]))

        def configure_optimizers(self) -> Any:
            net, rate = self.net, settings["rate"]
            both = [*net.encoder.parameters(), *net.decoder.parameters()]
            found = [
                torch.optim.Adam(both, rate, betas=(0.5, 0.999)),
                torch.optim.Adam(net.critic.parameters(), rate / 2, betas=(0.5, 0.999)),
            ]
            if settings["schedule"]:
                half = torch.optim.lr_scheduler.StepLR
                return found, [half(each, 300, 0.6) for each in found]
            return found

    return Module()


SETTINGS = {
    "loss": "binary", "weight": 0.1, "norm": True, "spectral": False, "later": False, "every": 1,
    "smoothed": False, "clip": 0.0, "schedule": False, "rate": 2e-3, "fault": "",
}  # fmt: skip


def train(
    seed: int, hook: Any, epochs: int = 12, batch: int = 40, kind: str = "", **changed: Any
) -> float:
    begin(seed)
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    import lightning

    size = spectra(3000, 40, kind).std()
    parts = ((3000, seed + 400), (500, 401), (2000, 402))
    x, held, test = (spectra(count, begun, kind) / size for count, begun in parts)
    lightning_module = module({**SETTINGS, **changed})
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, callbacks=[hook.lightning()],
    )  # fmt: skip
    trainer.fit(
        lightning_module,
        DataLoader(TensorDataset(x), batch, shuffle=True),
        DataLoader(TensorDataset(held), 250),
    )
    lightning_module.eval()
    with torch.no_grad():
        code, again = lightning_module(test)
    normal = torch.distributions.Normal(0.0, 1.0).icdf(torch.linspace(0.01, 0.99, 99))
    apart = (code.quantile(torch.linspace(0.01, 0.99, 99), 0) - normal[:, None]).abs().mean()
    skill = explained(again, test) - 0.5 * float(apart)
    return max(skill, -1.0) if math.isfinite(skill) else math.nan


CASES = cases(
    "adversarial codes",
    train,
    {
        "plain": {},
        "least squares": {"loss": "least squares"},
        "hinge, spectral norm": {"loss": "hinge", "spectral": True, "weight": 0.05},
        "adversary later": {"later": True, "epochs": 14},
        "critic every second batch": {"every": 2},
        "smoothed, clipped": {"smoothed": True, "clip": 1.0},
        "both rates in steps": {"schedule": True, "rate": 3e-3},
        "no batch norm": {"norm": False, "rate": 3e-3},
        "causes in groups": {"kind": "in groups"},
    },
    {
        "gradients kept": ("kept-gradients fast worse", {"fault": "gradients kept"}),
        "rebuilt from a copy of the code": (
            "no-gradient no-skill collapse", {"fault": "rebuilt from a copy of the code"},
        ),
    },
)  # fmt: skip

"""Speech freed of noise by a mask on its spectrogram; noise is mixed again into each batch.

Syllables of a gliding voice with two formants and hisses, in coloured noise with a hum. The skill
is the share of the noise's energy that is removed from sounds held out, whatever their loudness.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from benchmarks.detection.families.kit import begin, factor, optimizer_of
from torch import Tensor, nn

from benchmarks.detection.case import cases

LENGTH, RATE, WINDOW, BINS = 1024, 4000, 128, 65


def voices(count: int, seed: int) -> Tensor:
    """(count, LENGTH) of two syllables each, with pauses between."""
    draw = torch.Generator().manual_seed(seed)

    def between(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(count, *shape, generator=draw)

    time = torch.arange(LENGTH) / RATE
    glide = torch.sin(2 * torch.pi * between(1, 3, 1) * time + between(0, 6, 1))
    pitch = between(110, 240, 1) * (1 + 0.1 * glide)
    phase = 2 * torch.pi * pitch.cumsum(1) / RATE
    middle = torch.tensor([0.07, 0.19]) + between(-0.02, 0.02, 2)
    width = between(0.035, 0.06, 2)
    near = ((time - middle[..., None]).abs() / width[..., None]).clamp(max=1)
    loud = between(0.5, 1.0, 2)[..., None] * torch.cos(near * torch.pi / 2) ** 2
    hiss = (torch.rand(count, 2, 1, generator=draw) < 0.15) * loud
    first, second = between(300, 800, 2)[..., None], between(900, 1700, 2)[..., None]
    sound = torch.zeros(count, LENGTH)
    for harmonic in range(1, 13):
        height = harmonic * pitch[:, None]
        formants = 0.03 + 1 / (1 + ((height - first) / 120) ** 2)
        formants = formants + 0.6 / (1 + ((height - second) / 160) ** 2)
        part = ((loud - hiss) * formants * (height < 1900)).sum(1)
        sound += part * torch.sin(harmonic * phase)
    white = torch.randn(count, LENGTH, generator=draw)
    sound += 0.3 * hiss.sum(1) * (white - white.roll(1, 1))
    return 0.1 * sound / sound.std(1, keepdim=True)


def noises(count: int, seed: int, colours: tuple[float, float] = (0.0, 1.2)) -> Tensor:
    """(count, LENGTH) as loud as the voices are."""
    draw = torch.Generator().manual_seed(seed)
    spectrum = torch.fft.rfft(torch.randn(count, LENGTH, generator=draw))
    share = torch.rand(count, 4, generator=draw)
    steep = colours[0] + (colours[1] - colours[0]) * share[:, :1]
    sound = torch.fft.irfft(spectrum / (torch.arange(LENGTH // 2 + 1) + 20.0) ** steep)
    time = torch.arange(LENGTH) / RATE
    sound = sound / sound.std(1, keepdim=True)
    sound += 0.6 * torch.sin(2 * torch.pi * (100 + 1500 * share[:, 1:2]) * time)
    sound *= 1 + 0.6 * torch.sin(2 * torch.pi * (1 + 4 * share[:, 2:3]) * time + 6 * share[:, 3:])
    return 0.1 * sound / sound.std(1, keepdim=True)


def spectrogram(sound: Tensor) -> Tensor:
    """Complex (N, BINS, frames)."""
    window = torch.hann_window(WINDOW)
    return torch.stft(sound, WINDOW, WINDOW // 2, window=window, return_complex=True)


def waveform(spectrum: Tensor) -> Tensor:
    window = torch.hann_window(WINDOW)
    return torch.istft(spectrum, WINDOW, WINDOW // 2, window=window, length=LENGTH)


class Recurrent(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.recurrent = nn.GRU(BINS, width, batch_first=True, bidirectional=True)
        self.mask = nn.Linear(2 * width, BINS)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.mask(self.recurrent(x.transpose(1, 2))[0]).transpose(1, 2)
        return found


def network(kind: str, dropout: float, width: int = 64) -> nn.Module:
    if kind == "recurrent":
        return Recurrent(width // 2)
    squash = nn.Tanh if kind == "tanh" else nn.ReLU
    norm = nn.BatchNorm1d if kind == "norms" else nn.Identity
    return nn.Sequential(
        nn.Conv1d(BINS, width, 3, padding=1), norm(width), squash(), nn.Dropout(dropout),
        nn.Conv1d(width, width, 3, padding=2, dilation=2), norm(width), squash(),
        nn.Conv1d(width, 2 * BINS if kind == "complex" else BINS, 1),
    )  # fmt: skip


def distortion(found: Tensor, clean: Tensor, axis: int = -1, guard: float = 1e-8) -> Tensor:
    """The scale-invariant ratio of signal to distortion, in decibels."""
    share = (found * clean).sum(axis, keepdim=True) / (clean.pow(2).sum(axis, keepdim=True) + guard)
    wanted = share * clean
    ratio = wanted.pow(2).sum(axis) / ((found - wanted).pow(2).sum(axis) + guard)
    return 10 * torch.log10(ratio + guard)


def objective(kind: str, found: Tensor, clean: Tensor) -> Tensor:
    """The loss of sounds (N, LENGTH)."""
    if kind == "ratio":
        return -distortion(found, clean).mean()
    if kind == "ratio over sounds":
        return -distortion(found, clean, axis=0).mean()
    if kind == "unguarded":
        return -distortion(found, clean, guard=0.0).mean()
    if kind == "ratio, broadcast":
        return -distortion(found[:, None], clean).mean()
    if kind == "waveform":
        return F.l1_loss(found, clean)
    one, other = spectrogram(found).abs(), spectrogram(clean).abs()
    if kind == "pauses alone":
        return F.l1_loss(one[other < 0.02], other[other < 0.02])
    if kind == "squares":
        return F.mse_loss(one, other)
    return F.l1_loss(one, other)


def masked(net: nn.Module, spectrum: Tensor, x: Tensor, mask: str, bfloat16: bool) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        found = net(x)
    found = found.float()
    if mask == "complex":
        real, imaginary = found.chunk(2, 1)
        return waveform(spectrum * torch.complex(real, imaginary))
    if mask == "softmax":
        return waveform(spectrum * found.softmax(1))
    if mask == "sigmoid twice":
        return waveform(spectrum * found.sigmoid().sigmoid())
    if mask == "relu":
        return waveform(spectrum * found.relu())
    return waveform(spectrum * found.sigmoid())


def train(
    seed: int, hook: Any, kind: str = "plain", loss: str = "ratio", mask: str = "sigmoid",
    rate: float = 3e-3, steps: int = 600, batch: int = 16, optimizer: str = "adam",
    schedule: str = "constant", dropout: float = 0.0, decay: float = 0.0, clip: float = 0.0,
    times: float = 1.0, average: float = 0.0, accumulate: int = 1, frozen: str = "",
    bfloat16: bool = False, unit: float = 1.0, louder: float = 1.0, count: int = 400,
    colours: tuple[float, float] = (0.0, 1.2), width: int = 64, evaluated: bool = True,
    bias: float = 0.0, unclean: float = 0.0, fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    speech, disturbing = voices(count, seed + 5700), noises(count, seed + 5701, colours)
    held, test = voices(80, seed + 5702), voices(250, seed + 5704)
    held_noise, test_noise = noises(80, seed + 5703), noises(250, seed + 5705)
    if fault == "clips of silence":
        speech[::20] = 0
    speech += unclean * noises(count, seed + 5706)
    wanted = speech
    if fault == "other speech wanted":
        wanted = speech.roll(1, 0)
    if fault == "delayed by a codec":
        wanted = speech.roll(WINDOW // 2, 1)
    first = spectrogram((speech + disturbing) * unit).abs()
    floor = 1e-2 * unit
    logarithm = (first + floor).log()
    middle, spread = logarithm.mean((0, 2))[:, None], logarithm.std((0, 2))[:, None]

    def inputs(sound: Tensor, training: bool) -> tuple[Tensor, Tensor]:
        if fault == "bytes overflow":
            sound = (sound * 600).to(torch.int8).float() / 600
        if fault == "16 bits in evaluation" and not training:
            sound = sound * 32768
        spectrum = spectrogram(sound)
        if fault == "amplitudes of 16 bits":
            return spectrum, spectrum.abs() * 32768
        x = ((spectrum.abs() + floor).log() - middle) / spread
        if fault == "bins upside down" and not training:
            x = x.flip(1)
        return spectrum, x

    def enhanced(net: nn.Module, sound: Tensor, training: bool = False) -> Tensor:
        spectrum, x = inputs(sound, training)
        if fault == "mask without gradients" and training:
            with torch.no_grad():
                found = masked(net, spectrum, x, mask, bfloat16)
            return found.requires_grad_()
        return masked(net, spectrum, x, mask, bfloat16)

    net = network(kind, dropout, width)
    if fault == "start of zeros":
        for parameter in net.parameters():
            nn.init.zeros_(parameter)
    if bias:
        nn.init.constant_(list(net.parameters())[-1], bias)
    hook.torch(net)
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(not frozen or not name.startswith(frozen))
    trained = copy.deepcopy(net) if fault == "optimizer of a copy" else net
    chosen = [p for p in trained.parameters() if p.requires_grad]
    stepper = optimizer_of(optimizer, chosen, rate, decay)
    falls = torch.optim.lr_scheduler.LambdaLR(stepper, lambda s: factor(schedule, s, steps))
    if fault == "epoch's scheduler":
        falls = torch.optim.lr_scheduler.ExponentialLR(stepper, 0.8)
    averaged = copy.deepcopy(net)
    for step in range(steps):
        net.train()
        if fault != "gradients kept":
            stepper.zero_grad()
        for _ in range(accumulate):
            rows = torch.randint(count, (batch,))
            other = torch.randint(count, (batch,))
            louder_now = louder * 10 ** (0.15 * (2 * torch.rand(batch, 1) - 1))
            sound = speech[rows] + louder_now * disturbing[other]
            aim = unit * (sound if fault == "noisy one wanted" else wanted[rows])
            error = objective(loss, enhanced(net, sound * unit, True), aim)
            (error * times / accumulate).backward()
        if fault == "gradients cleared early":
            stepper.zero_grad()
        if clip:
            nn.utils.clip_grad_norm_(net.parameters(), clip)
        stepper.step()
        falls.step()
        if average:
            for slow, fast in zip(averaged.parameters(), net.parameters(), strict=True):
                slow.data.lerp_(fast.data, 1 - average)
        if evaluated and step % 100 == 99:
            net.eval()
            with torch.no_grad():
                found = enhanced(net, (held + held_noise) * unit)
                objective(loss, found, held * unit)
    final = averaged if average else net
    final.eval()
    with torch.no_grad():
        noisy = (test + test_noise) * unit
        before, after = distortion(noisy, test), distortion(enhanced(final, noisy), test)
        return 1 - float((10 ** (-after / 10)).mean() / (10 ** (-before / 10)).mean())


CASES = cases(
    "speech enhancement",
    train,
    {
        "plain": {},
        "recurrent": {"kind": "recurrent"},
        "twice as wide": {"width": 128, "rate": 2e-3},
        "tanh inside": {"kind": "tanh"},
        "batch norm": {"kind": "norms"},
        "distance of magnitudes": {"loss": "magnitudes", "steps": 1000},
        "squares of magnitudes": {"loss": "squares"},
        "distance of waveforms": {"loss": "waveform"},
        "complex mask": {"kind": "complex", "mask": "complex", "steps": 1100},
        "mask without an end": {"mask": "relu", "steps": 900},
        "batch of four": {"batch": 4, "rate": 2e-3, "steps": 1200},
        "batch of 64": {"batch": 64, "rate": 6e-3, "steps": 400},
        "momentum": {"optimizer": "momentum", "rate": 1e-2},
        "AdamW": {"optimizer": "adamw", "decay": 0.05},
        "warm-up": {"schedule": "warmup"},
        "restarts": {"schedule": "restarts", "rate": 5e-3},
        "clipped": {"clip": 0.1},
        "two batches a step": {"accumulate": 2, "batch": 8},
        "loss x 10000": {"times": 1e4},
        "dropout": {"dropout": 0.2},
        "average of weights": {"average": 0.98},
        "bfloat16": {"bfloat16": True},
        "amplitudes of 16 bits": {"unit": 32768.0},
        "inner layer fixed": {"frozen": "4.", "rate": 5e-3},
        "not quite clean": {"unclean": 0.1},
        "mask closed at first": {"bias": -6.0, "steps": 800, "rate": 5e-3},
        "no evaluation": {"evaluated": False},
    },
    {
        "other speech wanted": ("no-skill overfit", {"fault": "other speech wanted"}),
        "delayed by a codec": ("no-skill worse", {"fault": "delayed by a codec"}),
        "noisy one wanted": ("leak ignored no-skill", {"fault": "noisy one wanted"}),
        "noise not added": ("leak inputs overfit", {"louder": 0.0}),
        "whisper of noise": ("inputs overfit", {"louder": 0.02}),
        "clips of silence": ("not-finite", {"fault": "clips of silence", "loss": "unguarded"}),
        "bytes overflow": ("inputs no-skill range", {"fault": "bytes overflow"}),
        "amplitudes alone": ("inputs", {"fault": "amplitudes of 16 bits"}),
        "16 bits in evaluation": ("inputs overfit", {"fault": "16 bits in evaluation"}),
        "bins upside down": ("inputs overfit", {"fault": "bins upside down"}),
        "three clips": ("overfit", {"count": 3, "steps": 800}),
        "ratio turned": ("worse no-skill", {"times": -1.0}),
        "ratio over sounds": ("softmax-axis", {"loss": "ratio over sounds"}),
        "ratio, broadcast": ("broadcast no-skill", {"loss": "ratio, broadcast"}),
        "pauses alone": ("ignored collapse", {"loss": "pauses alone"}),
        "softmax of bins": ("softmax-axis probabilities", {"mask": "softmax", "loss": "squares"}),
        "sigmoid twice": ("probabilities range", {"mask": "sigmoid twice", "loss": "magnitudes"}),
        "mask without gradients": ("no-gradient unbound", {"fault": "mask without gradients"}),
        "mask open": ("saturated no-gradient no-skill slow", {"bias": 30.0}),
        "start of zeros": ("dead no-gradient no-skill", {"fault": "start of zeros"}),
        "optimizer of a copy": ("unbound no-skill", {"fault": "optimizer of a copy"}),
        "gradients kept": ("kept-gradients fast worse", {"fault": "gradients kept", "rate": 1e-2}),
        "gradients cleared early": ("no-gradient no-skill", {"fault": "gradients cleared early"}),
        "epoch's scheduler at each step": ("schedule slow", {"fault": "epoch's scheduler"}),
        "rate x 1000": ("fast worse dead saturated not-finite no-skill", {"rate": 3.0}),
        "rate / 1000": ("slow no-skill", {"rate": 3e-6}),
    },
)

"""Contracts of gradients, optimizers and learning-rate schedulers."""

from __future__ import annotations

from tocsin.contracts.contract import Contract
from tocsin.model import Severity

UPDATES = (
    Contract(
        "no_gradient",
        Severity.CRITICAL,
        "no gradient reaches the model",
        "detach(), item(), no_grad(), argmax or numpy breaks the graph before the loss",
        "compute the loss from the output of the model itself",
    ),
    Contract(
        "update_without_backward",
        Severity.WARNING,
        "the optimizer updates the model before any gradient was computed",
        "backward() is missing, or zero_grad() stands between backward() and step()",
        "call zero_grad(), backward() and step() in this order",
    ),
    Contract(
        "optimizer_step_missing",
        Severity.CRITICAL,
        "gradients are computed and cleared, but no optimizer's step() is called",
        "the weights are never updated",
        "call optimizer.step() after backward()",
    ),
    Contract(
        "training_step_returns_none",
        Severity.CRITICAL,
        "training_step returns nothing",
        "the trainer computes no gradients, and the model is never updated",
        "return the loss",
    ),
    Contract(
        "gradients_not_cleared",
        Severity.WARNING,
        "gradients of earlier updates are kept and add up",
        "zero_grad() is missing, or called on another optimizer",
        "call optimizer.zero_grad() once per update",
    ),
    Contract(
        "optimizer_of_another_model",
        Severity.CRITICAL,
        "the optimizer holds other parameters than those that get gradients",
        "the model is never updated: layers of it were replaced after the optimizer was made",
        "create the optimizer from model.parameters() once all layers are in place",
    ),
    Contract(
        "optimizer_holds_only_frozen",
        Severity.CRITICAL,
        "the optimizer holds only frozen parameters",
        "its updates change nothing",
        "create it from parameters that require gradients, after adapters or heads are added",
    ),
    Contract(
        "optimizer_without_gradient",
        Severity.WARNING,
        "an optimizer holds parameters that never get a gradient",
        "its part of the model is not trained: the output is detached before the loss",
        "look for detach(), no_grad() or another model's output between this part and its loss",
    ),
    Contract(
        "parameter_in_no_optimizer",
        Severity.WARNING,
        "a parameter gets gradients, but no optimizer holds it",
        "it is never updated",
        "create the optimizer after all layers exist, and no layer in forward(); if intended, call "
        "requires_grad_(False)",
    ),
    Contract(
        "layer_not_registered",
        Severity.WARNING,
        "layers in a Python list or dict of the model get gradients, but no optimizer holds them",
        "parameters() omits them: they are not trained, saved or moved to a device",
        "use nn.ModuleList or nn.ModuleDict",
    ),
    Contract(
        "part_detached",
        Severity.WARNING,
        "the output of a part of the model is detached, so this part gets no gradient",
        "the optimizer holds it but never trains it",
        "remove detach() or data; if intended, leave this part out of the optimizer",
    ),
    Contract(
        "frozen_random_weights",
        Severity.WARNING,
        "most of the model is frozen at its random initial weights",
        "no weights were loaded, or their names did not match: the trained part sees random "
        "features",
        "load the weights before freezing, and refuse names that do not match: strict=True in "
        "PyTorch, skip_mismatch=False in Keras",
    ),
    Contract(
        "learning_rate_zero",
        Severity.WARNING,
        "the learning rate of an optimizer is 0 at each of its updates",
        "its parameters are never trained",
        "check the scheduler: its first value, its unit (steps or epochs), and its step() calls",
    ),
    Contract(
        "weight_decay_too_large",
        Severity.WARNING,
        "weight_decay is 0.2 or more in an optimizer that adds it to gradients, or Keras's l2 is "
        "0.1 or more",
        "it pulls weights to 0 harder than the loss does, and outputs become constant",
        "use 1e-5 to 1e-2, or AdamW, whose weight_decay has another scale",
    ),
    Contract(
        "eps_zero_in_half_precision",
        Severity.WARNING,
        "the optimizer's eps is 0 in the type of the weights, such as 1e-8 in float16",
        "an update divides by 0 where a gradient is 0: weights become NaN",
        "keep weights in float32 and use torch.autocast with a GradScaler, or set eps=1e-4",
    ),
    Contract(
        "updates_rounded_to_zero",
        Severity.WARNING,
        "most updates are rounded to 0: few elements of the 16-bit weights ever change",
        "bfloat16 cannot hold a change of less than about 0.3 % of a weight, so the model hardly "
        "learns",
        "keep weights in float32 and use torch.autocast, or an optimizer with float32 copies",
    ),
    Contract(
        "scheduler_not_stepped",
        Severity.INFO,
        "a learning-rate scheduler was created but never stepped",
        "the learning rate keeps its initial value",
        "call its step() after each epoch or update; in Lightning with manual optimization, too",
    ),
    Contract(
        "scheduler_stepped_per_epoch",
        Severity.WARNING,
        "a scheduler that counts updates is stepped far less often",
        "training ends near the start of its schedule",
        'call its step() after each update; in Lightning set "interval": "step"',
    ),
    Contract(
        "warmup_not_finished",
        Severity.WARNING,
        "training ends during the warm-up of the learning rate",
        "the intended learning rate is never reached",
        "limit the warm-up to a tenth of the updates, or train longer",
    ),
    Contract(
        "monitor_mode_reversed",
        Severity.WARNING,
        "a callback or scheduler treats the largest loss, or the smallest accuracy, as the best",
        "the worst model is kept, or training stops while it improves",
        'use mode="min" for losses and "max" for accuracies; in Hugging Face, greater_is_better',
    ),
)

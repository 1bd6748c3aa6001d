"""Contracts of training with actions, target networks and opponents."""

from __future__ import annotations

from tocsin.contracts.contract import Contract
from tocsin.model import Severity

INTERACTION = (
    Contract(
        "target_not_detached",
        Severity.WARNING,
        "the target of the loss is the value of the best action, and gradients flow into it",
        "the loss also falls by moving the targets towards the predictions",
        "compute the target in torch.no_grad(), or call detach() on it",
    ),
    Contract(
        "next_state_equals_state",
        Severity.WARNING,
        "the target network receives the same states as the network that is trained",
        "the effect of an action is not learned",
        "store copies of states: the environment or the loop overwrites them in place",
    ),
    Contract(
        "target_network_never_updated",
        Severity.WARNING,
        "the target network keeps its initial weights to the end",
        "targets come from an untrained network, so values are never learned",
        "copy the trained weights into it regularly, or a small share at each update",
    ),
    Contract(
        "actions_resampled",
        Severity.WARNING,
        "the loss uses log-probabilities of actions that the environment never received",
        "actions were sampled a second time, so rewards belong to other actions",
        "call log_prob with the action that the environment received; in PPO with the stored one",
    ),
    Contract(
        "ppo_clip_uses_max",
        Severity.WARNING,
        "the loss takes the larger of the plain and the clipped policy objective",
        "the policy gets worse, or its change is not limited",
        "minimise -torch.min(ratio * advantage, clipped * advantage).mean()",
    ),
    Contract(
        "entropy_minimised",
        Severity.WARNING,
        "the loss falls with the entropy of the policy: its sign is wrong",
        "the policy soon takes one and the same action, and tries no others",
        "subtract it: loss = policy_loss + value_loss - 0.01 * entropy",
    ),
    Contract(
        "gradient_penalty_subtracted",
        Severity.WARNING,
        "the gradient penalty has the wrong sign: the loss falls as input derivatives grow",
        "they grow without limit, and so do the scores",
        "add the penalty to the loss that is minimised",
    ),
    Contract(
        "gan_losses_agree",
        Severity.WARNING,
        "generator and discriminator push the scores of generated samples in the same direction",
        "the generator learns samples that are easier to tell from real ones",
        "check the labels and signs of both losses: one of them is reversed",
    ),
)

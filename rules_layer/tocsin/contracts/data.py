"""Contracts of inputs, labels, tokens and their axes."""

from __future__ import annotations

from tocsin.contracts.contract import Contract
from tocsin.model import Severity

DATA = (
    Contract(
        "classes_not_permuted",
        Severity.CRITICAL,
        "view or reshape turns scores of shape (N, C, positions) into rows of C classes, or back",
        "scores of different positions are taken for the classes of one position",
        "use permute or movedim, which move values; view and reshape leave them in place",
    ),
    Contract(
        "axes_not_permuted",
        Severity.WARNING,
        "a view changes the order of axes: shapes (A, B) and (B, A)",
        "values stay in place, so those of different samples, steps or channels are mixed",
        "use permute, transpose or movedim; check batch_first of recurrent layers",
    ),
    Contract(
        "channels_not_permuted",
        Severity.WARNING,
        "images of shape (N, 3, H, W) still have their values in the order (N, H, W, 3)",
        "colours and positions are mixed up",
        "use permute(0, 3, 1, 2): view and reshape leave values in place",
    ),
    Contract(
        "attention_over_queries",
        Severity.WARNING,
        "attention weights are normalised along one axis and summed along another",
        "queries, heads or samples compete with each other, instead of the keys",
        "apply softmax over the keys: dim=-1 before weights @ values",
    ),
    Contract(
        "samples_mixed",
        Severity.CRITICAL,
        "the prediction for a sample depends on other samples of the batch",
        "predictions change with the composition of the batch",
        "look for a wrong axis: batch_first of attention and recurrent layers, view, softmax",
    ),
    Contract(
        "positions_along_batch",
        Severity.WARNING,
        "a table of positions is added along the batch, and attention goes along the other axis",
        "all tokens of a sample get the same position: their order is lost",
        "give the table the shape (1, positions, features) where samples come first",
    ),
    Contract(
        "sees_future_tokens",
        Severity.CRITICAL,
        "the prediction of the next token depends on that token",
        "the model learns to copy it, and cannot generate",
        "pass a causal mask, or shift the input tokens",
    ),
    Contract(
        "targets_not_shifted",
        Severity.CRITICAL,
        "each label is the current input token instead of the next one",
        "the model learns to copy",
        "shift the labels by one token",
    ),
    Contract(
        "targets_shifted_twice",
        Severity.CRITICAL,
        "the labels are shifted by two tokens instead of one",
        "the model learns to skip a token, and generates nonsense",
        "shift the labels once: many models shift them themselves",
    ),
    Contract(
        "padding_mask_inverted",
        Severity.CRITICAL,
        "the padding mask is inverted: predictions depend on the padding and not on the tokens",
        "the model never sees its tokens",
        "key_padding_mask is True for padding; attention_mask of Hugging Face is 1 for tokens",
    ),
    Contract(
        "padding_in_loss",
        Severity.WARNING,
        "most labels that the loss counts are padding",
        "a model that predicts nothing but padding has a low loss",
        "pass ignore_index with the padding's id, or set these labels to -100",
    ),
    Contract(
        "labels_identical",
        Severity.WARNING,
        "all labels of a batch are the same class, or all pixels of its masks are 0",
        "the model learns to predict nothing else",
        "inspect the labels that the loss receives: masks divided by 255 or filled with ignored "
        "pixels, data sorted by class",
    ),
    Contract(
        "targets_identical",
        Severity.WARNING,
        "all targets of a regression are the same number",
        "the model learns to predict nothing else",
        "inspect the targets that the loss receives: were they cast to integers, or overwritten?",
    ),
    Contract(
        "constant_input",
        Severity.INFO,
        "all samples of a batch are the same: a constant input",
        "the batch buffer was never filled, or one sample is repeated",
        "inspect a batch as the model receives it",
    ),
    Contract(
        "tokens_identical",
        Severity.CRITICAL,
        "all samples of a batch have the same tokens but different labels",
        "nothing can be learned: texts are truncated, or replaced by padding or unknown tokens",
        "decode a batch as the model receives it; check max_length and the vocabulary",
    ),
    Contract(
        "label_among_inputs",
        Severity.CRITICAL,
        "a column of the inputs equals the label, or a multiple of it: a leak",
        "the model copies it, and fails where labels are unknown",
        "remove that column from the inputs",
    ),
    Contract(
        "labels_copied",
        Severity.WARNING,
        "the labels equal the inputs, and the model has learned to copy them",
        "the loss is near 0 and nothing is learned",
        "shift the labels by one token, or mask the tokens to predict",
    ),
    Contract(
        "labels_equal_inputs",
        Severity.INFO,
        "the labels equal the inputs",
        "without a shift by one token the model learns to copy",
        "shift the labels once, unless the model shifts them itself",
    ),
)

"""The contracts that a hook checks, whatever is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tocsin.model import Severity


@dataclass(frozen=True)
class Contract:
    """What is wrong where a contract is broken, why it matters, and how to fix it."""

    severity: Severity
    says: str
    cause: str
    advice: str


CONTRACTS: Mapping[str, Contract] = {
    "broadcast": Contract(
        Severity.CRITICAL,
        "the loss compares every prediction with every label: shapes (N, 1) and (N) broadcast",
        "the model learns the mean of the labels",
        "call squeeze(1) on the prediction or unsqueeze(1) on the label",
    ),
    "broadcast_by_hand": Contract(
        Severity.CRITICAL,
        "a difference of prediction and label has N × N elements: shapes (N, 1) and (N) broadcast",
        "the model learns the mean of the labels",
        "call squeeze(1) on the prediction or unsqueeze(1) on the label",
    ),
    "product_across_samples": Contract(
        Severity.WARNING,
        "what is computed of each sample is multiplied by the mask or the weight of every sample: "
        "shapes as (N, 1) and (N), or (N, 1, H, W) and (N, H, W), broadcast",
        "masks and weights are mixed up, and the loss is a mean over all pairs",
        "call squeeze(1) on the one or unsqueeze(1) on the other, and compare their shapes",
    ),
    "probabilities_as_logits": Contract(
        Severity.CRITICAL,
        "a loss that takes logits gets probabilities: softmax or sigmoid is applied twice",
        "gradients are tiny and the loss cannot fall to 0",
        "pass the output before the softmax or sigmoid",
    ),
    "logits_as_probabilities": Contract(
        Severity.CRITICAL,
        "a loss that takes probabilities gets numbers that are none",
        "what lies outside of 0 to 1 is cut off, and has no gradient",
        "end with a softmax or sigmoid, or make the loss with from_logits=True",
    ),
    "softmax_twice": Contract(
        Severity.CRITICAL,
        "a softmax or log_softmax is computed of probabilities",
        "the result can hardly differ from one class to another, and gradients are tiny",
        "leave one of them out; Categorical and log_softmax take logits",
    ),
    "softmax_of_one": Contract(
        Severity.CRITICAL,
        "a softmax is computed over a single score",
        "the result is 1 whatever the model says, and there are no gradients",
        "use a sigmoid and binary_cross_entropy, or one score for each class",
    ),
    "not_log_probabilities": Contract(
        Severity.CRITICAL,
        "nll_loss or ctc_loss gets numbers that are not log-probabilities",
        "the loss can fall without limit while nothing is learned",
        "use cross_entropy on logits, or log_softmax before it",
    ),
    "blank_is_a_label": Contract(
        Severity.CRITICAL,
        "a label of ctc_loss is the blank itself",
        "the blank means that nothing is said: the loss is wrong, and may be below 0",
        "number the labels from 1, or pass blank=, a number that no label has",
    ),
    "softmax_over_batch": Contract(
        Severity.WARNING,
        "a softmax goes over the batch, not over the classes",
        "the samples of a batch compete with each other",
        "use dim=1 or dim=-1",
    ),
    "softmax_over_positions": Contract(
        Severity.WARNING,
        "a softmax goes over the positions, not over the classes",
        "the pixels or tokens of a sample compete with each other",
        "use the dimension of the classes: dim=1 for (N, C, …), dim=-1 for (…, C)",
    ),
    "classes_not_permuted": Contract(
        Severity.CRITICAL,
        "scores of shape (N, C, positions) are viewed as rows of C classes, or the reverse",
        "scores of different positions are taken for those of the classes of one",
        "use permute or movedim, which move numbers; view and reshape leave them where they are",
    ),
    "axes_not_permuted": Contract(
        Severity.WARNING,
        "a view puts axes in another order: shapes (A, B) and (B, A)",
        "it leaves the numbers where they are: those of samples, steps or channels are mixed",
        "use permute, transpose or movedim; look for batch_first in recurrent layers",
    ),
    "attention_over_queries": Contract(
        Severity.WARNING,
        "shares of attention add up to 1 along one axis, and are summed up along another",
        "a query gets no shares of the keys; queries, heads or samples compete with each other",
        "compute the softmax over the keys: dim=-1 before weights @ values",
    ),
    "sees_ahead": Contract(
        Severity.CRITICAL,
        "a prediction of the next token depends on that token",
        "the model copies what it is to predict, and knows nothing when it generates",
        "pass a causal mask, or shift the tokens that the model is given",
    ),
    "targets_not_shifted": Contract(
        Severity.CRITICAL,
        "a model that sees no later tokens is to predict the token that it is given",
        "it learns to copy",
        "shift the labels by one token",
    ),
    "targets_shifted_twice": Contract(
        Severity.CRITICAL,
        "the labels of a model of tokens are the tokens after the next ones",
        "the model learns to leave one out, and generates nonsense",
        "shift them once: many models shift their labels themselves",
    ),
    "samples_mixed": Contract(
        Severity.CRITICAL,
        "the prediction for a sample depends on the other samples of the batch",
        "what is learned holds for this very batch alone",
        "look for the wrong axis: batch_first in attention and recurrent layers, view, softmax",
    ),
    "errors_cancel": Contract(
        Severity.WARNING,
        "the loss is the same whichever label belongs to which sample",
        "errors are averaged before they are squared, and those of different signs cancel out",
        "square first, or take absolute values: ((prediction - target) ** 2).mean()",
    ),
    "cosines_as_logits": Contract(
        Severity.WARNING,
        "a softmax over many scores gets cosines as they are",
        "they lie between -1 and 1, so that no score can get a large share",
        "divide them by a temperature of 0.05 to 0.1, or multiply them by a learned scale",
    ),
    "derivative_without_graph": Contract(
        Severity.WARNING,
        "a derivative that is a part of the loss was computed without a graph",
        "to training it is a constant, and only the rest of its equation is learned",
        "pass create_graph=True to torch.autograd.grad",
    ),
    "derivative_of_zero": Contract(
        Severity.WARNING,
        "a derivative by the inputs is 0 for all samples",
        "second derivatives of a network with ReLU are 0, and the equation is not learned",
        "use a smooth activation, such as tanh, SiLU or sine",
    ),
    "labels_all_alike": Contract(
        Severity.WARNING,
        "all labels are one and the same of many classes, or those of all pixels are 0",
        "the model learns to say nothing else",
        "look at labels as the loss receives them: masks divided by 255 or put into the labels, "
        "data sorted by class",
    ),
    "target_not_detached": Contract(
        Severity.WARNING,
        "the target of a loss is the value of the best action, and gradients go into it",
        "the loss is lowered by targets that move towards the predictions as well",
        "compute it in torch.no_grad(), or call detach() on it",
    ),
    "next_state_is_state": Contract(
        Severity.WARNING,
        "the copy of the model that values next states is given the very states before them",
        "nothing is learned of what an action leads to",
        "store copies: what an environment or a loop writes into is kept as it is at the end",
    ),
    "target_never_renewed": Contract(
        Severity.WARNING,
        "the copy of the model that gives the targets is the one of the start to the end",
        "targets are those of the weights that it was made with, and values are never learned",
        "copy the weights of the model that is trained into it, or a small share at each update",
    ),
    "drawn_again": Contract(
        Severity.WARNING,
        "the loss has log-probabilities of actions that the environment never used",
        "they were drawn a second time: the reward belongs to another action",
        "call log_prob with the action that the environment used; in PPO with the stored actions",
    ),
    "clipped_objective_reversed": Contract(
        Severity.WARNING,
        "of the plain and the clipped objective of a policy the loss takes the better one",
        "the policy is trained to do worse, or its change is not limited where it should be",
        "minimise -torch.min(ratio * advantage, clipped * advantage).mean()",
    ),
    "penalty_subtracted": Contract(
        Severity.WARNING,
        "the loss falls as derivatives by inputs grow: their penalty has the wrong sign",
        "they grow without limit, and so do the scores",
        "add the penalty to the loss that is minimised",
    ),
    "opponents_agree": Contract(
        Severity.WARNING,
        "generator and discriminator pull the scores of generated samples in the same direction",
        "the generator learns samples that are the easier to tell from real ones",
        "look at the labels and signs of the two losses: one of them is the wrong way round",
    ),
    "channels_scrambled": Contract(
        Severity.WARNING,
        "pictures (N, 3, H, W) hold their numbers in the order of (N, H, W, 3)",
        "colours and places are mixed up: no part of a picture is where it was",
        "use permute(0, 3, 1, 2), where view and reshape leave numbers where they are",
    ),
    "weight_decay_of_most": Contract(
        Severity.WARNING,
        "weight_decay is 0.2 or more, in an optimizer that adds it to the gradients",
        "weights are pulled to 0 harder than the loss pulls them away: outputs become constant",
        "use 1e-5 to 1e-2, or AdamW, whose weight_decay is another quantity",
    ),
    "momentum_of_one_batch": Contract(
        Severity.WARNING,
        "batch normalisation has a momentum of 0.9 or more, which is the share of the last batch",
        "in eval mode it normalises by statistics of about one batch",
        "use 0.1 where Keras has 0.9, and 0.01 where it has 0.99",
    ),
    "all_labels_ignored": Contract(
        Severity.CRITICAL,
        "every label is ignore_index: nothing is left to learn from",
        "the loss is 0 or NaN",
        "look at how labels are masked, padded and cut",
    ),
    "target_out_of_range": Contract(
        Severity.WARNING,
        "targets lie outside of the range that the output's activation can reach",
        "the model saturates at the edge of its range",
        "scale the targets, or leave out the last activation",
    ),
    "bce_target_out_of_range": Contract(
        Severity.CRITICAL,
        "targets of a binary cross-entropy lie outside of the range from 0 to 1",
        "the loss is negative and has no least value",
        "scale the targets, for instance by 1/255",
    ),
    "kl_not_log": Contract(
        Severity.CRITICAL,
        "kl_div gets an input that is not log-probabilities",
        "the value is not a divergence, and its gradient is wrong",
        "pass log_softmax(x); set log_target if the target is logarithmic, too",
    ),
    "best_is_worst": Contract(
        Severity.WARNING,
        "a callback or a schedule takes the largest loss for the best, or the smallest accuracy",
        "the worst model is kept, or training ends while it gets better",
        'use mode="min" for losses, "max" for accuracies; of Hugging Face, greater_is_better',
    ),
    "schedule_not_stepped": Contract(
        Severity.INFO,
        "a schedule of the learning rate was made, and never stepped",
        "the rate stays as it was at first",
        "call its step() after each epoch or update; of Lightning by hand with manual optimization",
    ),
    "schedule_counts_updates": Contract(
        Severity.WARNING,
        "a schedule that counts the updates of the training is stepped far more rarely",
        "the training ends where its schedule begins: while the rate rises, or before it falls",
        'call its step() after each update; of Lightning, "interval": "step"',
    ),
    "warm_up_to_the_end": Contract(
        Severity.WARNING,
        "the training ends while the learning rate is still warmed up",
        "it never had the rate that was meant",
        "make the warm-up a tenth of the updates, or train for longer",
    ),
    "parameters_unused": Contract(
        Severity.WARNING,
        "xgb.train gets parameters of the estimators, which it ignores",
        "it trains ten rounds, or does not stop early",
        "pass num_boost_round=…, early_stopping_rounds=… beside params",
    ),
    "frozen_at_random": Contract(
        Severity.WARNING,
        "most of the model is frozen at the random weights that it was made with",
        "nothing was loaded into it, or under other names; what is trained sees random features",
        "load the weights before they are frozen, with strict=True",
    ),
    "padding_attended": Contract(
        Severity.CRITICAL,
        "predictions depend on the padding, and not on the tokens",
        "the mask is turned round: it hides what it should show",
        "key_padding_mask is True for padding, an attention_mask of Hugging Face 1 for tokens",
    ),
    "optimizer_of_frozen": Contract(
        Severity.CRITICAL,
        "the optimizer holds nothing but frozen parameters",
        "none of its updates changes anything",
        "make it from the parameters that require gradients, after adapters or heads exist",
    ),
    "inputs_shorter_than_labels": Contract(
        Severity.WARNING,
        "ctc_loss gets samples with fewer input_lengths than target_lengths",
        "no path leads through them: their loss is infinite, or zero_infinity leaves them out",
        "give the lengths that the network puts out, and downsample less",
    ),
    "overlap_minimised": Contract(
        Severity.WARNING,
        "the loss falls as predictions and labels overlap less",
        "the model learns to predict nothing, or the opposite",
        "the loss of Dice, or of Jaccard, is 1 minus that share",
    ),
    "overlap_of_scores": Contract(
        Severity.CRITICAL,
        "the share that predictions and labels have in common is computed of scores, some of them "
        "below 0: a sigmoid or softmax is missing",
        "the loss has no smallest value at the right masks, and may get below 0",
        "compute the loss of Dice, or of Jaccard, of the sigmoid or softmax of the output",
    ),
    "learning_rate_of_trees": Contract(
        Severity.WARNING,
        "all rounds together go a small part of the way: eta times rounds is below 0.3",
        "the model has hardly left its base score when training ends",
        "use more rounds with early_stopping_rounds, or a larger eta",
    ),
    "rounds_too_few": Contract(
        Severity.WARNING,
        "the loss of the evaluation falls as fast in the last rounds as in the first ones",
        "training ends long before the model has learned what it can",
        "use more rounds with early_stopping_rounds, or a larger eta; look at lambda and "
        "max_delta_step",
    ),
    "min_child_weight_of_most": Contract(
        Severity.WARNING,
        "min_child_weight lets no tree have more than one split",
        "each side of it must hold more than a third of the rows, whatever max_depth says",
        "of squared errors it is a number of rows: use 1, or a hundredth of them",
    ),
    "labels_beyond_training": Contract(
        Severity.WARNING,
        "all labels of an evaluated data set lie beyond those of training",
        "trees predict nothing outside of the labels that they have seen",
        "shuffle rows before they are split; of what grows with time, predict the change",
    ),
    "parameter_in_no_optimizer": Contract(
        Severity.WARNING,
        "a parameter gets gradients and is in no optimizer",
        "it is never updated",
        "make the optimizer after all layers exist, or call requires_grad_(False) if it is meant",
    ),
    "layer_not_registered": Contract(
        Severity.WARNING,
        "layers that the model has in a list or a dict get gradients, and no optimizer holds them",
        "parameters() does not name them: they are not trained, saved or moved to a device",
        "use nn.ModuleList or nn.ModuleDict",
    ),
    "never_updated": Contract(
        Severity.CRITICAL,
        "gradients are computed and cleared, and no weight changes: no optimizer's step is called",
        "the model stays as it was made",
        "call optimizer.step() after backward()",
    ),
    "optimizer_of_another_model": Contract(
        Severity.CRITICAL,
        "the optimizer holds no parameter of the model that is trained",
        "the model is never updated; it was copied, moved or made again after its optimizer",
        "make the optimizer from the parameters of the model that is trained",
    ),
    "no_gradient": Contract(
        Severity.CRITICAL,
        "no gradient reaches the model",
        "the graph is cut: detach(), item(), no_grad(), argmax or numpy lies before the loss",
        "compute the loss from the output of the model itself",
    ),
    "nothing_returned": Contract(
        Severity.CRITICAL,
        "training_step returns nothing",
        "the trainer computes no gradients, and the model is never updated",
        "return the loss",
    ),
    "optimizer_without_gradient": Contract(
        Severity.WARNING,
        "an optimizer updates parameters that never get a gradient",
        "its part of the model is never trained: its output is cut off before the loss",
        "look for detach(), no_grad() or another model's output between this part and its loss",
    ),
    "cut_off": Contract(
        Severity.WARNING,
        "what a part of the model computes is detached, and this part gets no gradient",
        "the optimizer holds it, and never trains it",
        "leave out detach() or data; if it is meant, leave this part out of the optimizer",
    ),
    "learning_rate_of_zero": Contract(
        Severity.WARNING,
        "the learning rate of an optimizer is 0 at each of its first updates",
        "what it holds is never trained",
        "look at the schedule: its first value, its units (steps or epochs), and who steps it",
    ),
    "eval_mode_while_training": Contract(
        Severity.WARNING,
        "the model is trained in eval mode",
        "dropout is off and batch normalisation learns no statistics",
        "call model.train() after each evaluation and after from_pretrained",
    ),
    "train_mode_while_evaluating": Contract(
        Severity.WARNING,
        "the model is evaluated in train mode",
        "dropout and the batch itself change its outputs",
        "call model.eval() before an evaluation",
    ),
    "dropout_in_evaluation": Contract(
        Severity.WARNING,
        "dropout goes on in eval mode",
        "evaluations and predictions depend on chance, and are worse than the model is",
        "pass training=self.training to F.dropout, or use nn.Dropout; of attention, dropout_p=0",
    ),
    "dropout_of_most": Contract(
        Severity.WARNING,
        "dropout drops 85 % of a layer, or more",
        "next to nothing is left to learn from; its argument is the share to drop, not to keep",
        "pass the share to drop, such as 0.1 or 0.5",
    ),
    "dropout_of_predictions": Contract(
        Severity.WARNING,
        "the last layer is a dropout",
        "predictions themselves are dropped, and the loss is mostly of those that were",
        "put dropout between layers, not after the last one",
    ),
    "trees_without_splits": Contract(
        Severity.WARNING,
        "after ten rounds no tree has a split",
        "the model predicts one and the same number for all rows",
        "look at gamma, min_child_weight, lambda and max_depth, and at the labels",
    ),
    "gradients_kept": Contract(
        Severity.WARNING,
        "gradients are kept over an update and add up",
        "zero_grad() is missing, or called on another optimizer",
        "call optimizer.zero_grad() once for each update",
    ),
    "weights_upside_down": Contract(
        Severity.WARNING,
        "the most frequent class has the largest weight in the loss",
        "rare classes count even less than they would without weights",
        "weight classes by the inverse of their share; pos_weight is negatives ÷ positives",
    ),
    "constant_input": Contract(
        Severity.INFO,
        "all rows of a batch are the same: a constant input",
        "the data is not filled in, or the same sample is taken again and again",
        "look at a batch as the model receives it",
    ),
    "tokens_all_alike": Contract(
        Severity.CRITICAL,
        "all samples of a batch have the same tokens, and different labels",
        "nothing can be learned: the texts are cut, or replaced by padding or unknown words",
        "decode a batch as the model receives it; look at max_length and the vocabulary",
    ),
    "labels_copied": Contract(
        Severity.WARNING,
        "the labels are equal to the inputs, and the model has soon learned to copy them",
        "the loss is next to 0 and nothing is learned",
        "shift the labels by one token, or hide from the input what is to be predicted",
    ),
    "label_is_an_input": Contract(
        Severity.CRITICAL,
        "a column of the inputs is the label, or a multiple of it",
        "the model copies it, and has nothing to copy where labels are not known",
        "leave that column out of the inputs",
    ),
    "labels_equal_inputs": Contract(
        Severity.INFO,
        "the labels are equal to the inputs",
        "without a shift by one token the model learns to copy",
        "shift the labels if the model does not, once",
    ),
    "update_without_backward": Contract(
        Severity.WARNING,
        "the optimizer updates the model and no gradient was computed",
        "backward() is missing, or zero_grad() stands between backward() and step()",
        "call zero_grad(), backward() and step() in this order",
    ),
}

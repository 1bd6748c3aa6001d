"""Families of models by half: thresholds are chosen on one, and reported on the other.

A family lies in one half with all its variants, seeds and faults. Of each genre (generative, text,
reinforcement …) one family or more lies in each. A module of this package is a family: it has
``CASES``. The module of a new one is named here.
"""

from __future__ import annotations

import hashlib
from importlib import import_module
from pathlib import Path

from benchmarks.detection.case import Case

HALVES: dict[str, tuple[str, ...]] = {
    "design": (
        "language_model",
        "segmentation",
        "metric_learning",
        "click_through",
        "fine_tuning",
        "gan",
        "autoencoder",
        "q_learning",
        "second_order",
        "counts",
        "imbalanced",
        "distillation",
        "lightning_module",
        "early_stopping",
        "time_series",
        # Of the report half until rules were changed after a look at them:
        "learning_to_rank",
        "sequence_tagging",
        "object_detection",
        "diffusion",
        "normalizing_flow",
        "contrastive",
        "policy_gradient",
        "physics_informed",
        "recommender",
        "graph_network",
        "low_rank_adapters",
        "multi_task",
        "quantile_regression",
        "multi_label",
        "hugging_face",
        "keras_classifier",
        "two_processes",
        "vision_transformer",
        "parity",
        "speech",
        "survival",
        "bare_history",
        "classic",
        "character_transformer",
        "attention_sequence",
        "masked_tokens",
        "keypoints",
        "wasserstein",
        "convolutional_vae",
        "score_matching",
        "self_supervised",
        "angular_margin",
        "missing_values",
        "rare_events",
        "forecasting",
        "link_prediction",
        "prompt_tuning",
        "mixture_of_experts",
        "preferences",
        "two_optimizers",
        "keras_two_outputs",
        "exposure",
        "bare_recurrent",
        "residual_images",
        "review_sentiment",
        "house_prices",
        "machine_anomalies",
        "word_classes",
        "tuned_encoder",
        "grid_actor_critic",
        "photo_denoising",
        "energy_demand",
        "signature_verification",
        "code_completion",
        "implicit_feedback",
        "ordinal_grades",
        "conditional_vae",
        "keras_reviews",
        "molecule_energy",
        "heartbeat_classes",
        "super_resolution",
        "date_translation",
        "cart_balance",
        "credit_default",
        "tiny_stories_gpt",
        "remaining_life",
        "node_classes",
        "coordinate_network",
        "two_tower_search",
        "lightning_transfer",
        "keyword_spotting",
        "instruction_tuning",
        "density_counting",
        "bare_transformer",
        "boosted_risk",
        "electric_load",
        "ddp_texts",
        "vector_quantised",
        "pendulum_control",
        "flow_surrogate",
        "keras_sensors",
        "picture_captions",
        "map_to_facade",
        "ddp_taxi_fares",
        "session_items",
        "picture_depth",
        "picture_texts",
        "bike_rentals",
        "stock_orders",
        "bare_clothes",
        "digit_strings",
        "answer_spans",
        "point_clouds",
        "keras_river",
        "image_retouching",
        "insurance_claims",
        "gesture_clips",
        "rover_ppo",
        "plant_species",
        "knowledge_graph",
        "speech_enhancement",
        "bare_prices",
        "word_vectors",
        "names_in_texts",
        "language_of_words",
        "sentence_similarity",
        "keras_spam",
        "document_topics",
        "sound_events",
        "melody_notes",
        "pen_strokes",
        "sorting_numbers",
        "keras_sleep",
        "bare_tickets",
        "treatment_effect",
        "payment_fraud",
        "concrete_bayes",
        "expert_records",
        "shop_sales",
        "leaving_customers",
        "keras_used_cars",
        "tank_planning",
        "disturbed_tables",
        "marginal_likelihood",
        "next_purchase",
        "organ_scans",
        "site_changes",
        "object_angle",
        "keras_mushrooms",
        "masked_patches",
        "swinging_pendulum",
        "source_operator",
        "keras_road_masks",
        "picture_holes",
        "bare_ages",
    ),
    "report": (
    ),
}


def cases(half: str) -> tuple[Case, ...]:
    """The cases of a half, ``design`` or ``report``."""
    return tuple(case for module in HALVES[half] for case in _module_cases(module))


def find(folder: str) -> Case:
    """The case of that folder. Raises KeyError."""
    return {case.folder: case for half in HALVES for case in cases(half)}[folder]


def digest(case: Case) -> str:
    """Of the code that trains it: its runs are worth nothing once that has changed."""
    module = next(m for half in HALVES.values() for m in half if case in _module_cases(m))
    folder = Path(__file__).parent
    files = [folder / f"{module}.py", folder / "kit.py"]
    if module == "classic":
        files += sorted((folder.parent / "training").rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def _module_cases(name: str) -> tuple[Case, ...]:
    found: tuple[Case, ...] = import_module(f"{__name__}.{name}").CASES
    return found

"""The runs of the paper's synthetic experiments (Sec. 6.1, App. C)."""

from fastweights.config import unknown
from fastweights.data.retrieval import Setting
from fastweights.experiments.retrieval.config import RetrievalConfig
from fastweights.experiments.retrieval.evaluation import AS_WRITTEN, EvaluationProtocol
from fastweights.experiments.retrieval.names import MODELS, RULES
from fastweights.experiments.retrieval.reads import SoftmaxRead
from fastweights.training.config import TrainingConfig
from fastweights.training.run import Run
from fastweights.training.stopping import Stopping

USUAL_MODEL = "dpfp1"
USUAL_RULE: dict[Setting, str] = {"capacity": "sum", "overwriting": "delta"}
USUAL_SIZE = 20
STOPPING = Stopping(target=0.001, patience=11)


def preset(
    setting: Setting,
    model: str | None = None,
    rule: str | None = None,
    num_keys: int = USUAL_SIZE,
    seed: int = 1,
    protocol: EvaluationProtocol = AS_WRITTEN,
) -> Run:
    """A run of the paper's figures. Softmax attention has no update rule; a rule given for it is not used."""
    model = model or USUAL_MODEL
    if model not in MODELS:
        raise ValueError(f"model: {unknown('name', model, MODELS)}")
    feature_map, rule = MODELS[model], rule or USUAL_RULE[setting]
    if feature_map is not None and rule not in RULES:
        raise ValueError(f"rule: {unknown('name', rule, RULES)}")
    attention = SoftmaxRead() if feature_map is None else RULES[rule](feature_map)
    slow = model == "tanh" and rule.startswith("schlag2021")
    recipe = training(seed, learning_rate=1e-4, batch_size=128) if slow else training(seed)
    name = f"{setting}-{model}" if feature_map is None else f"{setting}-{model}-{rule}"
    return Run(RetrievalConfig(setting, num_keys, attention, protocol=protocol), recipe, STOPPING, preset=name)


def training(seed: int, learning_rate: float = 1e-3, batch_size: int = 32) -> TrainingConfig:
    """Adam with a constant learning rate, evaluated every 100 steps."""
    return TrainingConfig(
        steps=100_000,
        batch_size=batch_size,
        learning_rate=learning_rate,
        schedule="constant",
        warmup_steps=0,
        clip_norm=None,
        log_every=None,
        evaluate_every=100,
        seed=seed,
    )

"""Claims about capacity: setting 1, Figures 2 and 4 (Secs. 4.1 and 6.1.1)."""

from fastweights.experiments.claim import NOT_RUN, Claim, Finding, decide, sizes
from fastweights.experiments.retrieval.bounds import rank_bound
from fastweights.experiments.retrieval.outcomes import NEARLY_SOLVED, SOLVED, Outcomes
from fastweights.experiments.retrieval.series import CAPACITY, DETERMINISTIC, feature_dim
from fastweights.runs.display import number

LITERAL_FAVOR = ("favor64", "favor128", "favor512")
BELOW_BOUND = 0.05
"""How far a loss over the first 200 keys may be below a bound on the mean over all keys."""


def capacity(outcomes: Outcomes, model: str) -> Outcomes:
    """The runs of a model in setting 1."""
    return outcomes.where(setting="capacity", model=model)


def width(runs: Outcomes) -> int:
    """d_dot of runs of one model."""
    return feature_dim(runs.all[0].model, runs.all[0].key_dim) or 0


def judge_rank_bound(outcomes: Outcomes) -> Finding:
    gaps = [
        (runs.best(size) - rank_bound(width(runs), size), CAPACITY[model].label, size)
        for model in DETERMINISTIC
        for runs in [capacity(outcomes, model)]
        for size in runs.sizes()
        if size > width(runs)
    ]
    if not gaps:
        return NOT_RUN
    lowest, label, size = min(gaps)
    mean = sum(gap for gap, _, _ in gaps) / len(gaps)
    evidence = (
        f"{len(gaps)} runs with S > d_dot end {mean:+.3f} from the bound on average, the lowest "
        f"{lowest:+.3f} ({label}, S = {size})"
    )
    return decide([lowest > -BELOW_BOUND], evidence)


def judge_linear_threshold(outcomes: Outcomes) -> Finding:
    runs = capacity(outcomes, "elu")
    below = [size for size in runs.sizes() if size < 60]
    above = [size for size in runs.sizes() if size >= 60]
    if not below or not above:
        return NOT_RUN
    evidence = f"S = {below[-1]}: {number(runs.best(below[-1]))}, S = {above[0]}: {number(runs.best(above[0]))}"
    return decide(
        [
            all(runs.best(size) <= NEARLY_SOLVED for size in below),
            all(runs.best(size) > NEARLY_SOLVED for size in above),
        ],
        evidence,
    )


def judge_dpfp_thresholds(outcomes: Outcomes) -> Finding:
    parts, evidence = [], []
    for model in ("dpfp1", "dpfp2", "dpfp3"):
        runs = capacity(outcomes, model)
        if not runs or runs.sizes()[-1] <= (limit := width(runs)):
            continue
        below = [size for size in runs.sizes() if size < 0.85 * limit]
        above = [size for size in runs.sizes() if size > 1.05 * limit]
        parts.append(
            all(runs.best(size) <= NEARLY_SOLVED for size in below)
            and all(runs.best(size) > NEARLY_SOLVED for size in above)
        )
        solved = runs.largest_solved(NEARLY_SOLVED) or "none"
        evidence.append(f"{CAPACITY[model].label}: up to S = {solved} of {limit}")
    return decide(parts, "; ".join(evidence))


def judge_favor_fails(outcomes: Outcomes) -> Finding:
    runs = Outcomes(tuple(outcome for model in LITERAL_FAVOR for outcome in capacity(outcomes, model)))
    if not runs:
        return NOT_RUN
    lowest = min(runs, key=lambda outcome: outcome.best)
    evidence = (
        f"lowest loss of {len(runs.all)} runs {number(lowest.best)} ({CAPACITY[lowest.model].label}, "
        f"S = {lowest.num_keys})"
    )
    return decide([lowest.best > SOLVED], evidence)


def judge_favor_is_limited(outcomes: Outcomes) -> Finding:
    literal, stabilised = capacity(outcomes, "favor128"), capacity(outcomes, "favor128-stabilised")
    shared = [size for size in stabilised.sizes() if size in literal.sizes()]
    if not shared:
        return Finding("not run yet", "no stabilised runs")
    gains = [literal.best(size) - stabilised.best(size) for size in shared]
    pairs = "; ".join(f"S = {size}: {number(literal.best(size))} → {number(stabilised.best(size))}" for size in shared)
    return decide([gain < 0.1 for gain in gains], f"FAVOR+ 128, literal → stabilised: {pairs}")


def judge_softmax_best(outcomes: Outcomes) -> Finding:
    softmax = capacity(outcomes, "softmax")
    others = [capacity(outcomes, model) for model in (*DETERMINISTIC, *LITERAL_FAVOR)]
    shared = [size for size in softmax.sizes() if any(size in runs.sizes() for runs in others)]
    if not shared:
        return NOT_RUN
    beaten = [
        size
        for size in shared
        if softmax.best(size) > SOLVED and any(runs.best(size) < softmax.best(size) for runs in others)
    ]
    evidence = f"solved or lowest at {len(shared) - len(beaten)} of {len(shared)} sizes"
    if beaten:
        evidence += f"; beaten at S = {sizes(beaten)}"
    return decide([size not in beaten for size in shared], evidence)


def judge_softmax_struggles(outcomes: Outcomes) -> Finding:
    softmax = capacity(outcomes, "softmax")
    large = [size for size in softmax.sizes() if size > 500]
    if not large:
        return NOT_RUN
    unsolved = [size for size in softmax.sizes() if softmax.best(size) > SOLVED]
    evidence = f"loss above {SOLVED} at S = {sizes(unsolved)}"
    return decide([all(size in unsolved for size in large), all(size > 500 for size in unsolved)], evidence)


CLAIMS: tuple[Claim[Outcomes], ...] = (
    Claim(
        "capacity is bounded by d_dot",
        "Sec. 4.1, 6.1.1",
        "Storing more than d_dot associations results in a retrieval error.",
        f"no run with S > d_dot ends more than {BELOW_BOUND} below ½(1 − d_dot/S)",
        judge_rank_bound,
        "The bound is on the mean over all keys; the published evaluation asks for the first 200 only.",
    ),
    Claim(
        "Linear fails from S = 60",
        "Sec. 6.1.1",
        "Linear-Attention begins to accumulate errors with 60 or more associations.",
        f"loss ≤ {NEARLY_SOLVED} at every S < 60 and above it at every S ≥ 60",
        judge_linear_threshold,
    ),
    Claim(
        "DPFP fails near d_dot",
        "Sec. 6.1.1",
        "DPFP-1, 2 and 3 start to accumulate errors as they approach 128, 256 and 384.",
        f"loss ≤ {NEARLY_SOLVED} at every S below 0.85 d_dot and above it at every S beyond 1.05 d_dot",
        judge_dpfp_thresholds,
    ),
    Claim(
        "FAVOR+ never solves the task",
        "Sec. 6.1.1",
        "FAVOR+ fails to achieve a loss of 0 in any experiment.",
        f"no run of FAVOR+ as published reaches {SOLVED}",
        judge_favor_fails,
    ),
    Claim(
        "FAVOR+ fails because of its features",
        "implied by Sec. 5.3, 6.1.1",
        "The failure shows the limits of random features.",
        "stabilising the computation, with the same features, lowers the loss by less than 0.1 at every S",
        judge_favor_is_limited,
        "The published failure is an underflow of scale: |k|² grows like 0.74 S at the start, so φ ≈ "
        "exp(−|k|²/2) vanishes beside the 1e-6 in the denominator; reads are 0, the loss is exactly 0.5 "
        "and there is no gradient.",
    ),
    Claim(
        "softmax is best",
        "Sec. 6.1.1",
        "Softmax attention outperforms all φ functions.",
        f"at every S softmax is at most {SOLVED} or below every φ",
        judge_softmax_best,
    ),
    Claim(
        "softmax struggles above S = 500",
        "Sec. 6.1.1",
        "Softmax struggles to fully converge with more than 500 keys.",
        f"loss above {SOLVED} at every S > 500 and at no smaller S",
        judge_softmax_struggles,
        "What remains are a few pairs of keys that the model confuses for good.",
    ),
)

"""The arithmetic of docs/scale.md, and that the page has its numbers."""

from pathlib import Path

from benchmarks.scale import Plan, table

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_table() -> None:
    assert table() in (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")


def test_a_plan_by_hand() -> None:
    plan = Plan(layers=2, model_dim=4, heads=1, key_dim=3, value_dim=5, vocabulary=10)
    assert plan.parameters == 2 * (4 * 16 + 8 * 16) + 40
    assert plan.state == 5 * 3 * 4
    assert plan.operator_flops == 2 * 3 * (7 * 15)
    assert plan.exchanged == 2 * 4 * ((5 + 3) * 3 + 2 * 5 * 3)


def test_the_exchange_is_that_of_the_operator() -> None:
    """Counted there as elements of what `gather_states` sends, forward and backward."""
    one_layer = Plan(layers=1, heads=3, key_dim=5, value_dim=4)
    assert one_layer.exchanged == 4 * 3 * (4 + 5) * 5 + 4 * 3 * 2 * 4 * 5

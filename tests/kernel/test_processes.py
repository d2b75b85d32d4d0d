"""Gaussian processes against outputs whose distribution is known, and the directions that can be predicted."""

import numpy as np
import pytest

from worldline.kernel.processes import Inputs, NameTable, Process, predictable_directions

NOISE = 0.3


def _named(table: np.ndarray) -> list[Inputs]:
    return [{f"input {at}": value for at, value in enumerate(row)} for row in table.tolist()]


def _process(examples: list[Inputs], output: np.ndarray) -> Process:
    names = NameTable()
    return Process.of(*names.table([names.sparse(one) for one in examples]), output[:, None])


def _gain(process: Process, examples: list[Inputs], output: np.ndarray) -> float:
    return float(
        np.mean([process.log_ratios(one, np.array([[y]]))[0] for one, y in zip(examples, output, strict=True)])
    )


def test_a_linear_output_is_as_much_likelier_as_its_noise_is_smaller() -> None:
    """Of normal outputs, the mean log-ratio is half the log of the variance over that of the noise."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(700, 40))
    output = 2 * table[:, 3] - table[:, 7] + NOISE * rng.normal(size=700)
    examples = _named(table)
    process = _process(examples[:400], output[:400])
    expected = 0.5 * np.log((4 + 1 + NOISE**2) / NOISE**2)
    assert _gain(process, examples[400:], output[400:]) == pytest.approx(expected, abs=0.15)
    assert {"input 3", "input 7"} <= set(process.names)


def test_a_bend_is_learned_by_the_smooth_part() -> None:
    rng = np.random.default_rng(1)
    table = rng.uniform(0, 2, size=(600, 1))
    output = np.sin(4 * table[:, 0]) + 0.1 * rng.normal(size=600)
    examples = _named(table)
    process = _process(examples[:300], output[:300])
    assert process.linear < 1
    straight = np.polyval(np.polyfit(table[:300, 0], output[:300], 1), table[300:, 0])
    of_line = 0.5 * np.log(output.var() / np.square(output[300:] - straight).mean())
    assert _gain(process, examples[300:], output[300:]) > of_line + 0.5


def test_what_follows_from_nothing_is_no_likelier_anywhere() -> None:
    rng = np.random.default_rng(2)
    table, output = rng.normal(size=(600, 60)), rng.normal(size=600)
    examples = _named(table)
    process = _process(examples[:300], output[:300])
    assert _gain(process, examples[300:], output[300:]) == pytest.approx(0.0, abs=0.1)
    alike = [{"always": 1.0}] * 20
    constant = _process(alike, np.arange(20.0))
    assert np.isfinite(constant.log_ratios({"other": 5.0}, np.array([[0.0], [10.0], [1e9]]))).all()


def test_an_absent_input_is_zero() -> None:
    examples: list[Inputs] = [{"heard": 1.0} if at % 2 else {} for at in range(60)]
    output = np.array([5.0 if at % 2 else 1.0 for at in range(60)]) + 0.1 * np.sin(np.arange(60))
    process = _process(examples, output)
    assert process.log_ratios({}, np.array([[1.0], [5.0]])) @ [1, -1] > 4
    assert process.log_ratios({"heard": 1.0}, np.array([[1.0], [5.0]])) @ [1, -1] < -4


def test_the_directions_are_the_combinations_that_inputs_decide() -> None:
    """Of five outputs, the difference of two is decided; the largest of them is noise."""
    rng = np.random.default_rng(3)
    table = rng.normal(size=(400, 10))
    outputs = rng.normal(size=(400, 5)) * [0.5, 0.5, 0.5, 0.5, 3.0]
    outputs[:, 1] += table[:, 0]
    outputs[:, 2] -= table[:, 0]
    directions = predictable_directions(table, outputs - outputs.mean(0), 1)
    assert directions.shape == (5, 1)
    decided = np.array([0, 1, -1, 0, 0]) / np.sqrt(2)
    assert abs(directions[:, 0] @ decided) > 0.95


def test_without_inputs_that_differ_there_are_no_directions() -> None:
    assert predictable_directions(np.ones((30, 1)), np.ones((30, 4)), 3).shape == (4, 0)


def test_a_table_has_the_inputs_that_differ_in_order_of_their_names() -> None:
    names = NameTable()
    inputs: list[Inputs] = [
        {"b": at, "always": 1.0, "a": 1.0} if at % 2 else {"b": at, "always": 1.0} for at in range(10)
    ]
    examples = [names.sparse(one) for one in [*inputs, {"once": 1.0, "always": 1.0}]]
    assert names.inputs(examples[3]) == {"b": 3.0, "always": 1.0, "a": 1.0}
    named, table = names.table(examples)
    assert named == ["a", "b"], "what is the same, or in one example only, says nothing"
    np.testing.assert_array_equal(table[:10], [[at % 2, at] for at in range(10)])

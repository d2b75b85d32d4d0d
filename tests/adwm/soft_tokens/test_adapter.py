"""The adapter: its loss against brute force, its shape against the paper's, and what it retrieves."""

import math

import pytest
import torch
from torch.nn import functional as F

from worldline.adwm.fit import Fitted
from worldline.adwm.soft_tokens.adapter import (
    Adapter,
    AdapterConfig,
    FittedAdapter,
    fit_adapter,
    info_nce,
    mean_embeddings,
    retrieval,
)
from worldline.policies.language_model.hf import HFPolicy
from worldline.types import InputError

QUICK = AdapterConfig()


def answers(fitted: Fitted) -> list[str]:
    return [row.answer for row in fitted.ensemble.kernel.log.rows]


def test_sizes_are_the_published_ones() -> None:
    """64-512-512-(8 x 576), GELU, for SmolLM2."""
    adapter = Adapter(64, 576)
    count = sum(parameter.numel() for parameter in adapter.parameters())
    assert count == 64 * 512 + 512 + 512 * 512 + 512 + 512 * 8 * 576 + 8 * 576
    assert adapter(torch.zeros(3, 64)).shape == (3, 8, 576)
    assert [type(layer).__name__ for layer in adapter.net] == ["Linear", "GELU", "Linear", "GELU", "Linear"]


def test_info_nce_is_the_mean_of_two_cross_entropies() -> None:
    torch.manual_seed(0)
    left, right = torch.randn(5, 7), torch.randn(5, 7)
    total = 0.0
    for i in range(5):
        for a, b in ((left, right), (right, left)):
            cosines = [float(F.cosine_similarity(a[i], b[j], dim=0)) / 0.07 for j in range(5)]
            total -= cosines[i] - math.log(sum(math.exp(c) for c in cosines))
    assert float(info_nce(left, right, 0.07)) == pytest.approx(total / 10, rel=1e-5)


def test_retrieval_counts_rows_that_find_themselves() -> None:
    left = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    assert retrieval(left, left) == 1.0
    assert retrieval(left, left[[1, 0, 2]]) == pytest.approx(1 / 3)


def test_mean_embeddings_are_means_over_the_tokens(reader: HFPolicy) -> None:
    table = reader.model.get_input_embeddings().weight
    texts = ["You open the fridge 1.", "Nothing happens.", ""]
    means = mean_embeddings(texts, reader.encoder.tokenizer, table)
    for text, row in zip(texts[:2], means, strict=False):
        ids = reader.encoder.tokenizer(text, add_special_tokens=False)["input_ids"]
        torch.testing.assert_close(row, table[ids].detach().mean(0))
    assert not means[2].any()


@pytest.fixture(scope="module")
def learned(fitted: Fitted, reader: HFPolicy) -> FittedAdapter:
    table = reader.model.get_input_embeddings().weight
    return fit_adapter(fitted.ensemble.members[0], answers(fitted), reader.encoder.tokenizer, table, QUICK)


def test_held_out_latents_find_their_own_text(learned: FittedAdapter, fitted: Fitted, reader: HFPolicy) -> None:
    table = reader.model.get_input_embeddings().weight
    idle = QUICK.model_copy(update={"epochs": 0})
    untrained = fit_adapter(fitted.ensemble.members[0], answers(fitted), reader.encoder.tokenizer, table, idle)
    assert learned.figures["texts"] >= 10
    assert learned.figures["top1"] > 5 * learned.figures["top1_chance"]
    assert learned.figures["top1"] > 3 * untrained.figures["top1"]
    assert learned.figures["top1_in_batch"] > 4 / QUICK.batch


def test_soft_tokens_lie_where_the_embeddings_of_the_text_lie(
    learned: FittedAdapter, fitted: Fitted, reader: HFPolicy
) -> None:
    """The mean of the soft tokens is closer to the mean embedding of its own text than the average text's is."""
    target = mean_embeddings(answers(fitted), reader.encoder.tokenizer, reader.model.get_input_embeddings().weight)
    adapted = learned.adapter(fitted.ensemble.members[0].decoder.latents).mean(1)
    assert float((adapted - target).pow(2).mean()) < 0.5 * float((target - target.mean(0)).pow(2).mean())


def test_a_log_of_one_observation_is_refused(fitted: Fitted, reader: HFPolicy) -> None:
    table = reader.model.get_input_embeddings().weight
    with pytest.raises(InputError, match="--interface text"):
        fit_adapter(fitted.ensemble.members[0], ["Nothing happens."], reader.encoder.tokenizer, table, QUICK)

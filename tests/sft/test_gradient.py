"""The gradient of a batch, against transformers' own loss; padded to a shape that stays, it is the same."""

from typing import Any

import pytest
import torch

from tiny_llama import tiny_llama
from worldline.policies.language_model.recording import Recorder
from worldline.sft.gradient import BatchGradient, Example, pack, weighted_loss

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="records a CUDA graph: needs a GPU")


def examples(seed: int, *lengths: int) -> list[Example]:
    generator = torch.Generator().manual_seed(seed)
    return [
        Example(
            tuple(torch.randint(0, 50, (length,), generator=generator).tolist()),
            tuple((torch.rand(length, generator=generator) < 0.4).tolist()),
        )
        for length in lengths
    ]


def made() -> Any:
    return tiny_llama(50, 32, intermediate_size=48, num_key_value_heads=2, initializer_range=0.2, pad_token_id=0)


def losses(model: Any, batch: list[Example]) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean cross-entropy of the learned tokens and of the others, each example read alone by transformers."""
    sums, counts = [0.0, 0.0], [0, 0]
    for example in batch:
        ids, learned = torch.tensor([example.tokens]), torch.tensor([example.learned])
        for kind, wanted in enumerate((learned, ~learned)):
            labels = torch.where(wanted, ids, -100)
            if count := int((labels[:, 1:] != -100).sum()):
                sums[kind] = sums[kind] + model(input_ids=ids, labels=labels).loss * count
                counts[kind] += count
    return torch.as_tensor(sums[0] / counts[0]), torch.as_tensor(sums[1] / counts[1])


@pytest.mark.parametrize("reading", [0.0, 0.3])
def test_loss_and_gradient_are_those_of_transformers(reading: float) -> None:
    model, batch = made(), examples(0, 20, 9, 33)
    learned, others = losses(model, batch)
    expected = learned + reading * others
    gradient = torch.autograd.grad(expected, list(model.parameters()))
    loss = BatchGradient(model, pad=0, budget=100, reading=reading)(batch)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)
    for weight, other in zip(model.parameters(), gradient, strict=True):
        torch.testing.assert_close(weight.grad, other, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("reading", [0.0, 0.3])
def test_shapes_that_stay_give_the_same_gradient(reading: float) -> None:
    exact, fixed = made(), made()
    plain, placed = (BatchGradient(model, 0, 256, reading) for model in (exact, fixed))
    placed._recorder = Recorder(torch.device("cpu"))
    for seed, lengths in enumerate([(60, 61, 62), (20,), (100, 90), (64, 64, 64), (60, 61, 63)]):
        batch = examples(seed, *lengths)
        assert placed(batch).item() == pytest.approx(plain(batch).item(), abs=1e-6)
        for one, other in zip(fixed.parameters(), exact.parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-6)
    assert len(placed._shapes) < 5


def test_a_recording_keeps_its_gradients_whatever_the_weights_are_given() -> None:
    """A recorded pass knows addresses: after another's `zero_grad` it must not write where nobody reads."""
    model = made()
    gradient = BatchGradient(model, 0, 256)
    gradient._recorder = Recorder(torch.device("cpu"))
    gradient(examples(0, 20, 30))
    addresses = [weight.grad.data_ptr() for weight in model.parameters()]
    model.zero_grad(set_to_none=True)
    gradient(examples(1, 20, 30))
    assert [weight.grad.data_ptr() for weight in model.parameters()] == addresses


def test_a_shape_holds_its_batch_and_no_more_positions_than_the_model_has() -> None:
    model = made()
    model.config.max_position_embeddings = 100
    gradient = BatchGradient(model, 0, 512)
    for lengths in ((5,), (64,) * 8, (65,) * 7, (100,) * 5, (90,) * 5):
        packed = pack(examples(0, *lengths), 0)
        rows, length, targets = gradient.shape(packed)
        assert rows >= len(lengths)
        assert max(lengths) <= length <= 100
        assert targets >= len(packed.at)


def test_a_batch_without_anything_to_learn_moves_nothing() -> None:
    model = made()
    batch = [Example((1, 2, 3), (True, False, False))]  # the first token cannot be predicted
    assert BatchGradient(model, 0, 64)(batch).item() == 0
    assert all(weight.grad is None or not weight.grad.any() for weight in model.parameters())


@needs_gpu
@pytest.mark.parametrize("half", [False, True])
def test_a_recorded_gradient_is_that_of_a_pass(half: bool) -> None:
    model = made().cuda()
    gradient = BatchGradient(model, 0, 256, reading=0.1, half=half)
    for seed in range(5):
        batch = examples(seed, 60, 61, 62)
        loss = gradient(batch).item()
        recorded = [weight.grad.clone() for weight in model.parameters()]
        packed = pack(batch, 0, 0.1)
        model.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            whole = weighted_loss(
                model, *(torch.from_numpy(part).cuda() for part in (packed.tokens, packed.at, packed.weights))
            )
        whole.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        tolerance = 0.03 if half else 1e-3
        assert loss == pytest.approx(whole.item(), rel=tolerance)
        for one, weight in zip(recorded, model.parameters(), strict=True):
            assert (one - weight.grad).norm() <= tolerance * weight.grad.norm() + 1e-6
    assert len(gradient._shapes) == 1

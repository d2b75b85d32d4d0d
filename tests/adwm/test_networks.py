import pytest
import torch
from torch import nn
from torch.nn import functional as F

from worldline.adwm.networks import Block, Cache, HistoryEncoder, Projector, Row, ScoreNet, TextEncoder, mlp


@pytest.mark.parametrize("length", [1, 7])
def test_block_is_pytorchs_encoder_layer(length: int) -> None:
    torch.manual_seed(0)
    ours, theirs = Block(16, 4, 32, 0.0), nn.TransformerEncoderLayer(16, 4, 32, 0.0, F.silu, batch_first=True)
    pairs = {
        "self_attn.in_proj_weight": ours.attend.weight,
        "self_attn.in_proj_bias": ours.attend.bias,
        "self_attn.out_proj.weight": ours.join.weight,
        "self_attn.out_proj.bias": ours.join.bias,
        "linear1.weight": ours.widen.weight,
        "linear1.bias": ours.widen.bias,
        "linear2.weight": ours.narrow.weight,
        "linear2.bias": ours.narrow.bias,
        "norm1.weight": ours.norm_attention.weight,
        "norm1.bias": ours.norm_attention.bias,
        "norm2.weight": ours.norm_feedforward.weight,
        "norm2.bias": ours.norm_feedforward.bias,
    }
    theirs.load_state_dict(pairs)
    x = torch.randn(3, length, 16)
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    assert torch.allclose(ours(x, causal)[0], theirs(x, src_mask=~causal), atol=1e-5)


def test_text_encoder_ignores_padding() -> None:
    torch.manual_seed(0)
    encoder = TextEncoder(nn.Embedding(50, 16), 12, 2, 4, 32, nn.Linear(16, 8), 3, 0.0).eval()
    short = torch.tensor([[5, 6, 7]])
    marks = torch.tensor([[0, 1, 7]])
    linear = F.pad(short, (0, 6)), F.pad(marks, (0, 6))
    assert torch.allclose(encoder(short, marks), encoder(*linear), atol=1e-6)
    assert not torch.allclose(encoder(short, marks), encoder(short, torch.zeros_like(marks)), atol=1e-3)
    assert torch.isfinite(encoder(torch.zeros(1, 4, dtype=torch.long), torch.zeros(1, 4, dtype=torch.long))).all()


def test_history_is_causal_and_stepping_equals_reading_at_once() -> None:
    """Rows of different length in one batch, joined and taken apart on the way."""
    torch.manual_seed(0)
    encoder = HistoryEncoder(6, 16, 3, 4, 32, 10, 0.0).eval()
    tokens = torch.randn(2, 8, 6)
    whole = encoder(tokens)
    changed = tokens.clone()
    changed[:, 5:] += 1
    assert torch.allclose(encoder(changed)[:, :5], whole[:, :5], atol=1e-6)

    ahead = encoder.empty()
    for t in range(3):
        ahead = encoder.step(tokens[:1, t], ahead)
    rows = [Row(ahead), Row(encoder.empty())]
    for t in range(5):
        joined = encoder.step(torch.stack([tokens[0, 3 + t], tokens[1, t]]), Cache.stack(rows))
        assert torch.allclose(joined.h[0], whole[0, 3 + t], atol=1e-5)
        assert torch.allclose(joined.h[1], whole[1, t], atol=1e-5)
        rows = joined.split()
    assert [row.length for row in rows] == [8, 5]
    assert torch.equal(rows[1].tokens, tokens[1, :5])
    assert Cache.stack(rows[1:]).real.shape[1] == 5, "places that only the other row used are gone"


def test_score_net_starts_at_zero_and_uses_its_whole_condition() -> None:
    torch.manual_seed(0)
    net = ScoreNet(4, 8, 3, 16)
    z, k, h, a = torch.randn(5, 4), torch.arange(1, 6), torch.randn(5, 8), torch.randn(5, 3)
    assert torch.equal(net(z, k, h, a), torch.zeros(5, 4))
    nn.init.normal_(net.out.weight)
    base = net(z, k, h, a)
    for other in ((z + 1, k, h, a), (z, k + 9, h, a), (z, k, h + 1, a), (z, k, h, a + 1)):
        assert (net(*other) - base).abs().max() > 1e-3


def test_projector_gives_tokens_of_the_models_width() -> None:
    assert Projector(4, 8, tokens=3, width=10)(torch.randn(2, 5, 4)).shape == (2, 5, 3, 10)


@pytest.mark.parametrize("sizes", [(3, 2), (3, 4, 2)])
def test_mlp_has_no_activation_at_its_ends(sizes: tuple[int, ...]) -> None:
    layers = mlp(*sizes)
    assert isinstance(layers[0], nn.Linear)
    assert isinstance(layers[-1], nn.Linear)
    assert len(layers) == 2 * (len(sizes) - 1) - 1

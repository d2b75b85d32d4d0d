"""How token losses become the loss of a mini-batch: one weight per response token, fixed before the forward pass.

A sequence is one step's response, since every step is its own training sequence. With T_i tokens in response i and
N responses in the mini-batch:

`token`     1 / sum_j T_j: every token counts the same (DAPO, eq. 8; the default)
`sequence`  1 / (N T_i): every response counts the same (GRPO as first printed)
`constant`  1 / (N C): the sum over tokens, divided by a constant length (Dr. GRPO): no response is favoured for its
            length, neither by its own mean nor by the batch's
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

Aggregation = Literal["token", "sequence", "constant"]


def token_weights(
    lengths: Tensor,  # (rows,) response tokens of each row of the update
    chosen: Sequence[int],  # the rows of the mini-batch
    how: Aggregation = "token",
    constant: int = 64,
) -> Tensor:  # (actions,) over all response tokens of the update, 0 outside the mini-batch
    """The weight of every response token in the loss of the mini-batch."""
    members = torch.tensor(list(chosen))
    share = torch.zeros(len(lengths), dtype=torch.float64)
    match how:
        case "token":
            share[members] = 1 / lengths[members].sum().double()
        case "sequence":
            share[members] = 1 / (len(members) * lengths[members].double())
        case "constant":
            share[members] = 1 / (len(members) * constant)
    return share.repeat_interleave(lengths).float()

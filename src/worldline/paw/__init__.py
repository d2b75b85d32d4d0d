"""PaW: on-policy reinforcement learning of language agents, co-trained on what their actions did to the world.

`credit`, `anchors`, `selection`, `objective`, `loss` and `logprobs` are pure functions that import nothing but torch
and the standard library, to be lifted into other trainers. The walk of a datum through the rest:
`groups` (episodes) -> `rows` -> `pool` -> `advantages` and `world` -> `sequences` -> `batches` -> `update`, and `train`
is the loop around it.
"""

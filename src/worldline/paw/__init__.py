"""PaW: on-policy reinforcement learning of language agents, co-trained on what their actions did to the world.

`credit`, `anchors`, `selection`, `objective` and `loss` are pure functions that import nothing but torch and the
standard library, to be lifted into other trainers; `rows`, `batches`, `model`, `update` and `train` are ours.
"""

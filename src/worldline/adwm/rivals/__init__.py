"""World models that are not diffusion models, fitted on the same log."""

"""Fitting a world model on a log: what is read of it, the objective, and what the fit is worth."""

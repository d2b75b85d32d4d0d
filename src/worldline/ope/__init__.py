"""Offline estimators on ragged logs: values, intervals, diagnostics, agreement with truth (ADWM, appendix F).

Pure numerics on arrays; only `fqe` imports torch, so import it by name. What builds the arrays from a log folder and a
policy is `worldline.evaluate`.
"""

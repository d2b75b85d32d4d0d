"""Environments by name: the embedded ones, the real ones, and yours (`module:attr`)."""

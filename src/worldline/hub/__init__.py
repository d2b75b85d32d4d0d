"""Logs and world models on the Hugging Face Hub: pushed with a card, pulled through the same readers as any other."""

from worldline.hub.transfer import Pulled, Pushed, from_hub, push_to_hub

__all__ = ["Pulled", "Pushed", "from_hub", "push_to_hub"]

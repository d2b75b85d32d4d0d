"""How a language model reads an imagined observation: as text, or as soft tokens made from its latent."""

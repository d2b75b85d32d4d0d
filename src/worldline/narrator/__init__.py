"""What a log says in words: candidate answers, the decoder that weighs them, admissible actions, outcome features."""

"""The one training loop, with its settings, selection rules and checkpoints."""

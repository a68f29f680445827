"""Plain values, named random streams, hyperparameters, the registry and the exceptions: what every
other room stands on."""

"""Running plans: the engine, training, measuring."""

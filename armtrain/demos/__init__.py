"""Complete runs on real data, for `armtrain demo NAME`."""

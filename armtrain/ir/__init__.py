"""Intermediate representations: the forward graph and the training program."""

"""Trainings on published data, by make real-data only."""

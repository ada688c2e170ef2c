"""Board profiles: what a plan is made for, always an input and never probed while planning."""

"""Board profiles: one TOML file per board, data only."""

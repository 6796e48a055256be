"""Pure: what is to be run. The model, its TOML file, the seeded schedule. Imports no other room."""

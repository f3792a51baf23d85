"""The sandbox in other people's frameworks, one file for each. `docs/adapters.md` shows them."""

"""Interactive coding as a reinforcement-learning environment."""

"""robustboard: a registry, runner and static leaderboard for the robustness of image classifiers."""

__version__ = "0.1.0"

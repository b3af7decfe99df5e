"""Strategies of other systems and papers, which the leaderboard plays beside ours."""

"""Play strategies over past data and score each on windows it has not seen."""

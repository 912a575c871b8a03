"""The time of a step by phase, on each rank: taken in the workers, compared by the coordinator."""

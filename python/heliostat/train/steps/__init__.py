"""Where the time of a step goes, on each rank: taken in the workers, compared by the coordinator."""

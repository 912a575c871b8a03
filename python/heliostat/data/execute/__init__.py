"""Running a plan: operators that hold blocks and tasks, and the loop that drives them."""

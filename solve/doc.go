package solve

"""What hooks, rules and trials share."""

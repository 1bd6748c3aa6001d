"""Names that hooks, rules, and trials share."""

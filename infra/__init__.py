"""What is deployed: one stack that composes one construct per capability."""

"""What must hold whatever is trained, and how it is seen that it does not."""

"""Rules that read profiles: times, GPUs, memory."""

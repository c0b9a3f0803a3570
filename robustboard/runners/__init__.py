"""Where it is run: plan, load, evaluate, store."""

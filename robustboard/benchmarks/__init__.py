"""How it is measured: protocols, attacks, noise and metrics."""

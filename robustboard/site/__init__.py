"""How it looks: boards → static pages."""

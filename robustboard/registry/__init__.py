"""What is measured: models, datasets and label spaces, as entries with pins."""

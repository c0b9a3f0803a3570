"""Files of attacked images: NumPy archives and Parquet with PNG, read without trusting a byte."""

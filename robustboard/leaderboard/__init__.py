"""What came out: results → boards."""

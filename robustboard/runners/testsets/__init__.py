"""Generated test sets as versioned products: built, verified, fetched and published. See docs/testsets.md."""

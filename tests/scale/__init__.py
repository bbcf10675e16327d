"""Large recordings: many workers, SQL, runs that live elsewhere."""

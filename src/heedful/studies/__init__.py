"""Many runs as one study: what to run, how, and the table that comes out."""

"""One file per objective: examples → items → batch, batch → loss, outputs → metrics."""

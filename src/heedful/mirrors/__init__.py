"""Runs mirrored in other tools, made from their files whenever somebody asks: TensorBoard and MLflow."""

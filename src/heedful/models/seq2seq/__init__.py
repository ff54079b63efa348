"""From a source to a target: models that translate, of four kinds with one interface (`protocol`)."""
